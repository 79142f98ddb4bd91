"""A request's own cache of passages, ranked by the retriever's own scores: what the retrieval will probably say.

Knows ids, vectors and scores. Does not know the corpus: of the passages in it, the one that the retriever would
rank first is named (RaLMSpec, arXiv 2401.14021, section 3). Equal scores stand in the order of ids.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieval.storage.metric import Floats, Metric
from retrieval.storage.vectors import Labels

if TYPE_CHECKING:
    from .retrievers import Query


class DocumentCache(ABC):
    """Passages by id, at most `capacity` of them."""

    capacity = 512

    def __init__(self) -> None:
        self.names: list[str] = []
        self._seen: dict[str, int] = {}
        self._clock = 0

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._seen

    def add(self, names: Sequence[str]) -> None:
        """Take in passages that a search returned, best first; those that are here already only stay longer."""
        new = [name for name in dict.fromkeys(names) if name not in self._seen]
        for name in reversed(names):  # the best of them is the last to go
            self._clock += 1
            self._seen[name] = self._clock
        if new:
            self.names.extend(new)
            self._added(new)
        if len(self.names) > self.capacity:
            self._shrink()

    def best(self, query: Query) -> str | None:
        """The passage that ranks first; None where none fits."""
        return self._best(query) if self.names else None

    def _shrink(self) -> None:
        """Give up those that no search has returned for longest, a quarter at once so that it is seldom done."""
        keep = max(1, 3 * self.capacity // 4)
        oldest = sorted(self._seen.values())[-keep]
        kept = np.array(
            [i for i, name in enumerate(self.names) if self._seen[name] >= oldest], dtype=np.int64
        )
        self.names = [self.names[i] for i in kept]
        self._seen = {name: self._seen[name] for name in self.names}
        self._kept(kept)

    @abstractmethod
    def _added(self, new: list[str]) -> None:
        """Keep what scoring needs of new passages, which stand behind the others."""

    @abstractmethod
    def _kept(self, places: Labels) -> None:
        """Forget all but those at these places."""

    @abstractmethod
    def _best(self, query: Query) -> str | None: ...


class VectorCache(DocumentCache):
    """Compares the passages' vectors with the query's; `vectors(ids)` gives them, [n, D]."""

    def __init__(self, metric: Metric, vectors: Callable[[Sequence[str]], Floats]) -> None:
        super().__init__()
        self._metric = metric
        self._vectors = vectors
        self._matrix: Floats = np.empty((0, 0), dtype=np.float32)
        self._squares: Floats = np.empty(0, dtype=np.float32)

    def _added(self, new: list[str]) -> None:
        vectors = self._vectors(new)
        self._matrix = np.concatenate([self._matrix, vectors]) if len(self._matrix) else vectors
        self._squares = np.concatenate([self._squares, np.einsum("nd,nd->n", vectors, vectors)])

    def _kept(self, places: Labels) -> None:
        self._matrix, self._squares = self._matrix[places], self._squares[places]

    def _best(self, query: Query) -> str | None:
        assert query.vector is not None, "the query has no vector"
        rough = self._matrix @ query.vector
        if not self._metric.higher_is_nearer:
            rough = 2 * rough - self._squares
        # All that rounding may have put before or behind the best are measured exactly.
        margin = 2 * self._metric.rounding(query.vector, float(np.sqrt(self._squares.max())))
        near = np.flatnonzero(rough >= rough.max() - margin)
        scores = self._metric.scores(query.vector, self._matrix[near])
        names = [self.names[i] for i in near]
        return first(names, scores if self._metric.higher_is_nearer else -scores)


class ScoredCache(DocumentCache):
    """Asks `score(query, ids)`, higher is better; what scores no more than `least` never ranks."""

    def __init__(
        self, score: Callable[[str, Sequence[str]], Sequence[float] | Floats], least: float = -np.inf
    ) -> None:
        super().__init__()
        self._score = score
        self._least = least

    def _added(self, new: list[str]) -> None:
        """Nothing to prepare: ids are all that is asked with."""

    def _kept(self, places: Labels) -> None:
        """Nothing was prepared."""

    def _best(self, query: Query) -> str | None:
        scores = np.asarray(self._score(query.text, self.names), dtype=np.float32)
        return first(self.names, scores) if scores.max() > self._least else None


def first(names: Sequence[str], scores: Floats) -> str:
    """The name of the highest score; of equals the smallest name, as in the retrievers' own answers."""
    return min(names[int(i)] for i in np.flatnonzero(scores == scores.max()))
