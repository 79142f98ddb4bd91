"""The settings of KNN-LM and of speculation on its neighbours. Knows numbers."""

from __future__ import annotations

from dataclasses import dataclass

#: Entries that come into the cache behind each hit (the paper's n).
FOLLOWING = 10


@dataclass(frozen=True)
class KnnConfig:
    """What is mixed; decides the output. p = `weight` * p_knn + (1 - `weight`) * p_lm (lambda is the weight), where
    p_knn is the softmax of -distance / `bandwidth` over the `k` nearest contexts (squared Euclidean distance).

    Raises ValueError, naming the value.
    """

    k: int = 16
    weight: float = 0.25
    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.k <= 1024:
            raise ValueError(f"k={self.k} must lie between 1 and 1024")
        if not 0 <= self.weight < 1:
            raise ValueError(f"weight={self.weight} must lie in [0, 1)")
        if not self.bandwidth > 0:
            raise ValueError(f"bandwidth={self.bandwidth} must be greater than 0")
