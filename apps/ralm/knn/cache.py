"""A text's own cache of datastore entries: what the next search will probably find.

Knows entries and their keys. A hit brings the entries that follow it, since a text that follows a stored one for a
token tends to follow it further (RaLMSpec, arXiv 2401.14021, section 5.3).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from retrieval.storage.metric import Floats, Metric
from retrieval.storage.vectors import Labels

from .datastore import Datastore, Neighbours

_METRIC = Metric("l2")


class NeighbourCache:
    """At most `capacity` entries, the newest staying; `following` entries come with each hit."""

    def __init__(self, datastore: Datastore, following: int, capacity: int = 65_536) -> None:
        self._datastore = datastore
        self._steps = np.arange(following + 1)
        # Rings: `_next` is where the next entry goes. Memory that was never written takes no room.
        self._labels: Labels = np.empty(capacity, dtype=np.int64)
        self._keys = torch.empty(capacity, datastore.dimension)
        self._squares: Floats = np.empty(capacity, dtype=np.float32)
        self._count = self._next = 0

    def __len__(self) -> int:
        return self._count

    def add(self, found: Sequence[Neighbours]) -> None:
        """Take in hits and what follows them."""
        if not found:
            return
        hits = np.concatenate([one.labels for one in found])
        wanted = np.unique((hits[:, None] + self._steps).ravel())
        new = np.setdiff1d(wanted[wanted < len(self._datastore)], self._labels[: len(self)])
        capacity = len(self._labels)
        new = new[-capacity:]
        places = (self._next + np.arange(len(new))) % capacity
        keys = self._datastore.keys[new].astype(np.float32)
        self._labels[places] = new
        self._keys.numpy()[places] = keys
        self._squares[places] = np.einsum("nd,nd->n", keys, keys)
        self._next = (self._next + len(new)) % capacity
        self._count = min(self._count + len(new), capacity)

    def search(self, queries: Floats, k: int) -> list[Neighbours]:
        """The k nearest cached entries of each row of `queries` [Q, D]; fewer where fewer are here."""
        return [self._nearest(query, k) for query in queries]

    def _nearest(self, query: Floats, k: int) -> Neighbours:
        near = np.arange(len(self))
        if len(self) > 2 * k:
            # Rounding may cost a neighbour at the edge here, which only costs a guess. Not numpy's product, whose
            # threads would keep spinning while the model writes.
            products = self._keys[: len(self)] @ torch.from_numpy(query)
            near = np.argpartition(self._squares[: len(self)] - 2 * products.numpy(), k)[:k]
        labels, distances = self._labels[near], _METRIC.scores(query, self._keys.numpy()[near])
        order = np.lexsort((labels, distances))[:k]
        return Neighbours(labels[order], self._datastore.tokens[labels[order]], distances[order])
