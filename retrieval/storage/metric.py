"""Scores of a query against stored vectors, the same whoever asks; knows no index and no files.

Q queries, n vectors, D dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
NAMES = ("cosine", "ip", "l2")


class Hits(NamedTuple):
    """Best passages per query, best first: `ids[q]` and the float32 `scores[q]` run in parallel."""

    ids: list[list[str]]
    scores: list[Floats]


@dataclass(frozen=True)
class Metric:
    """`cosine` and `ip` (inner product): higher is nearer. `l2` (squared Euclidean distance): lower is nearer."""

    name: str = "cosine"

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(f"metric {self.name!r} is unknown; choose one of {', '.join(NAMES)}")

    @property
    def higher_is_nearer(self) -> bool:
        return self.name != "l2"

    def prepared(self, matrix: npt.ArrayLike, dimension: int | None) -> Floats:
        """Checked float32 `[n, D]` as it is stored and searched: unit length for cosine (zero stays zero).

        Raises:
            ValueError: not two axes, not `dimension` wide, or a value that is not finite.
        """
        rows = np.ascontiguousarray(matrix, dtype=np.float32)
        if rows.ndim != 2:
            raise ValueError(f"vectors have shape {rows.shape}; give a matrix [n, D]")
        if dimension is not None and rows.shape[1] != dimension:
            raise ValueError(
                f"vectors have {rows.shape[1]} dimensions, the store {dimension}; use its embedding"
            )
        if len(rows) and not np.isfinite(rows).all():
            row = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ValueError(f"vector {row} has a value that is not finite; check the embedding of that text")
        if self.name != "cosine" or not len(rows):
            return rows
        lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))[:, None]
        return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0, casting="unsafe")

    def scores(self, query: Floats, vectors: Floats) -> Floats:
        """Scores `[n]` of `query [D]` against `vectors [n, D]`, both prepared.

        Summed in double precision, one row at a time, so that a pair's score does not depend on what else
        is scored with it: a batch, a single query and a cache of a few passages agree to the last bit.
        """
        wide = vectors.astype(np.float64)
        if self.name == "l2":
            wide -= query
            return np.einsum("nd,nd->n", wide, wide).astype(np.float32)
        return np.einsum("nd,d->n", wide, query.astype(np.float64)).astype(np.float32)

    def best(self, ids: Sequence[str], scores: Floats, k: int) -> tuple[list[str], Floats]:
        """The k nearest of `ids`, equal scores in the order of their ids."""
        nearness = scores if self.higher_is_nearer else -scores
        order = sorted(range(len(ids)), key=lambda i: (-nearness[i], ids[i]))[:k]
        return [ids[i] for i in order], scores[order]

    def rounding(self, query: Floats, longest: float) -> float:
        """How far a float32 score may lie from the exact one, vectors being at most `longest` long."""
        length = float(np.sqrt(np.dot(query, query)))
        scale = length * longest if self.higher_is_nearer else 2 * (length + longest) ** 2
        return len(query) * 2.0**-24 * scale

    def relevance(self, score: float) -> float:
        """A score as a number from 0 (unrelated) to 1 (the same): cosine clipped at 0, 1/(1+d²), or a logistic."""
        if self.name == "cosine":
            return min(1.0, max(0.0, score))
        if self.name == "l2":
            return 1.0 / (1.0 + max(0.0, score))
        return 1.0 / (1.0 + math.exp(-score)) if score > -700 else 0.0
