"""The nearest vectors of many queries at once, read from memory once for all of them.

FAISS reads all vectors for every query of a few. numpy's library copies matrices before it multiplies them, and its
threads keep spinning where torch's want to work next; torch's product takes half as long over a million vectors of
256 dimensions: 70 instead of 115 ms for one query, 150 instead of 306 for 16 (two cores). A product's scores are
rounded, so all that may be among the nearest are named; who asks measures them again. n vectors, Q queries, D
dimensions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from retrieval.storage.metric import Floats

Labels = npt.NDArray[np.int64]
#: Vectors and scores that are looked through at once, and queries.
_BLOCK, _SCORES, _QUERIES = 32_768, 1 << 19, 256


class Candidates:
    """What may be among the k nearest of each query so far: rows, queries and scores in parallel, lower is nearer.

    A score that is greater than the k-th by no more than the query's margin [Q] stays.
    """

    def __init__(self, k: int, margins: Floats) -> None:
        self._k, self._margins = k, margins
        self._least_room = self._room = 8 * len(margins) * (k + 64)
        self._limits: Floats = np.full((_block(len(margins)), len(margins)), np.inf, dtype=np.float32)
        self._rows: list[Labels] = [np.empty(0, np.int64)]
        self._queries: list[Labels] = [np.empty(0, np.int64)]
        self._scores: list[Floats] = [np.empty(0, np.float32)]
        self._count = 0

    def add(self, start: int, scores: Floats) -> None:
        """Take in a block's scores [m, Q], its first vector being number `start`."""
        if not start and len(scores) > self._k:
            self._limits[:] = np.partition(scores, self._k - 1, axis=0)[self._k - 1] + self._margins
        # Of one axis, and limits written out: numpy takes several times as long over rows of a few queries.
        places = np.flatnonzero(~(scores > self._limits[: len(scores)]).ravel())  # what overflowed stays
        rows, queries = np.divmod(places, scores.shape[1])
        self._rows.append(rows + start)
        self._queries.append(queries)
        self._scores.append(scores.ravel()[places])
        self._count += len(places)
        if self._count > self._room:
            self._shrink()

    def rows(self) -> list[Labels]:
        """The rows of each query, in rising order."""
        self._shrink()
        order = np.argsort(self._queries[0], kind="stable")
        ends = np.cumsum(np.bincount(self._queries[0], minlength=len(self._margins)))
        return np.split(self._rows[0][order], ends[:-1])

    def _shrink(self) -> None:
        rows, queries = np.concatenate(self._rows), np.concatenate(self._queries)
        scores = np.concatenate(self._scores)
        for query, margin in enumerate(self._margins):
            mine = scores[queries == query]
            if len(mine) >= self._k:
                self._limits[:, query] = np.partition(mine, self._k - 1)[self._k - 1] + margin
        places = np.flatnonzero(~(scores > self._limits[0, queries]))
        self._rows, self._queries, self._scores = [rows[places]], [queries[places]], [scores[places]]
        self._count = len(places)
        self._room = max(self._least_room, 2 * self._count)


def nearest(
    queries: Floats,
    vectors: Floats,
    squares: Floats | None,
    k: int,
    margins: Floats,
    among: Labels | None = None,
) -> list[Labels]:
    """The numbers of the vectors that may be among each query's k nearest, in rising order.

    With `squares` [n], the vectors' squared lengths, the least distances; without, the greatest inner products.
    `margins` [Q]: twice what rounding can do to a query's score. `among`: only these numbers, rising.
    """
    found: list[Labels] = []
    for start in range(0, len(queries), _QUERIES):
        some = slice(start, start + _QUERIES)
        found += _nearest(queries[some], vectors, squares, k, margins[some], among)
    return found


def _nearest(
    queries: Floats, vectors: Floats, squares: Floats | None, k: int, margins: Floats, among: Labels | None
) -> list[Labels]:
    found = Candidates(k, margins)
    turned = torch.from_numpy(np.ascontiguousarray((-1 if squares is None else -2) * queries.T))
    lengths = None if squares is None else torch.from_numpy(squares)
    count, size = len(vectors) if among is None else len(among), _block(len(queries))
    room = torch.empty(min(size, count), len(queries))
    for start in range(0, count, size):
        block = slice(start, start + size) if among is None else among[start : start + size]
        some = torch.from_numpy(vectors[block])
        scores = torch.mm(some, turned, out=room[: len(some)])
        if lengths is not None:
            scores += lengths[block, None]
        found.add(start, scores.numpy())
    rows = found.rows()
    return rows if among is None else [among[places] for places in rows]


def _block(num_queries: int) -> int:
    """Vectors that are looked through at once."""
    return min(_BLOCK, max(1, _SCORES // num_queries))
