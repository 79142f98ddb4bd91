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

if TYPE_CHECKING:
    from .retrievers import Query


class DocumentCache(ABC):
    """Passages by id."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._known: set[str] = set()

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def add(self, names: Sequence[str]) -> None:
        """Take in passages that a search returned; those that are here already change nothing."""
        new = [name for name in dict.fromkeys(names) if name not in self._known]
        if new:
            self.names.extend(new)
            self._known.update(new)
            self._added(new)

    def best(self, query: Query) -> str | None:
        """The passage that ranks first; None where none fits."""
        return self._best(query) if self.names else None

    @abstractmethod
    def _added(self, new: list[str]) -> None:
        """Keep what scoring needs of the new passages."""

    @abstractmethod
    def _best(self, query: Query) -> str | None: ...


class VectorCache(DocumentCache):
    """Compares the passages' vectors with the query's; `vectors(ids)` gives them, [n, D]."""

    def __init__(self, metric: Metric, vectors: Callable[[Sequence[str]], Floats]) -> None:
        super().__init__()
        self._metric = metric
        self._vectors = vectors
        self._matrix: Floats = np.empty((0, 0), dtype=np.float32)

    def _added(self, new: list[str]) -> None:
        vectors = self._vectors(new)
        self._matrix = np.concatenate([self._matrix, vectors]) if len(self._matrix) else vectors

    def _best(self, query: Query) -> str | None:
        assert query.vector is not None, "the query has no vector"
        scores = self._metric.scores(query.vector, self._matrix)
        return first(self.names, scores if self._metric.higher_is_nearer else -scores)


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

    def _best(self, query: Query) -> str | None:
        scores = np.asarray(self._score(query.text, self.names), dtype=np.float32)
        return first(self.names, scores) if scores.max() > self._least else None


def first(names: Sequence[str], scores: Floats) -> str:
    """The name of the highest score; of equals the smallest name, as in the retrievers' own answers."""
    return min(names[int(i)] for i in np.flatnonzero(scores == scores.max()))
