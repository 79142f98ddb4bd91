"""A text's own cache of datastore entries: what the next search will probably find.

Knows entries and their keys. A hit brings the entries that follow it, since a text that follows a stored one for a
token tends to follow it further (RaLMSpec, arXiv 2401.14021, section 5.3).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from retrieval.storage.metric import Floats, Metric
from retrieval.storage.vectors import Labels

from .datastore import Datastore, Neighbours

_METRIC = Metric("l2")


class NeighbourCache:
    """At most about `capacity` entries, the newest staying; `following` entries come with each hit."""

    def __init__(self, datastore: Datastore, following: int, capacity: int = 65_536) -> None:
        self._datastore = datastore
        self._steps = np.arange(following + 1)
        self._capacity = capacity
        self._labels: Labels = np.empty(0, dtype=np.int64)
        self._keys: Floats = np.empty((0, datastore.dimension), dtype=np.float32)
        self._squares: Floats = np.empty(0, dtype=np.float32)

    def __len__(self) -> int:
        return len(self._labels)

    def add(self, found: Sequence[Neighbours]) -> None:
        """Take in hits and what follows them."""
        if not found:
            return
        hits = np.concatenate([one.labels for one in found])
        wanted = np.unique((hits[:, None] + self._steps).ravel())
        new = np.setdiff1d(wanted[wanted < len(self._datastore)], self._labels)
        if not len(new):
            return
        keys = self._datastore.keys[new].astype(np.float32)
        kept = slice(max(0, len(self) + len(new) - self._capacity), None)
        self._labels = np.concatenate([self._labels, new])[kept]
        self._keys = np.concatenate([self._keys, keys])[kept]
        self._squares = np.concatenate([self._squares, np.einsum("nd,nd->n", keys, keys)])[kept]

    def search(self, queries: Floats, k: int) -> list[Neighbours]:
        """The k nearest cached entries of each row of `queries` [Q, D]; fewer where fewer are here."""
        return [self._nearest(query, k) for query in queries]

    def _nearest(self, query: Floats, k: int) -> Neighbours:
        near = np.arange(len(self))
        if len(self) > 2 * k:
            # Rounding may cost a neighbour at the edge here, which only costs a guess.
            rough = self._squares - 2 * (self._keys @ query)
            near = np.argpartition(rough, k)[:k]
        labels, distances = self._labels[near], _METRIC.scores(query, self._keys[near])
        order = np.lexsort((labels, distances))[:k]
        return Neighbours(labels[order], self._datastore.tokens[labels[order]], distances[order])
