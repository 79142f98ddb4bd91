"""The nearest vectors of many queries at once, read from memory once for all of them.

FAISS reads all vectors for every query of a few, and its matrix product for many is several times slower than
numpy's over small pieces: 8 queries over 200,000 x 384 on one core took it 100 ms, these pieces 43 ms. For one query
both took 26 ms, FAISS twice as long where other programs wanted the memory too. A product's scores are rounded, so
all that may be among the nearest are named; who asks measures them again. n vectors, Q queries, D dimensions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from retrieval.storage.metric import Floats

Labels = npt.NDArray[np.int64]
#: Vectors and queries whose scores are looked through at once.
_BLOCK, _QUERIES = 8192, 256
#: OpenBLAS, numpy's usual library, copies matrices before it multiplies them, which takes longer than reading them
#: from memory does, unless there are at most so many multiplications: pieces of so many vectors are small enough.
_UNCOPIED, _PIECES = 1_000_000, (128, 64, 32)


class Candidates:
    """What may be among the k nearest of each query so far: rows, queries and scores in parallel, lower is nearer.

    A score that is greater than the k-th by no more than the query's margin [Q] stays.
    """

    def __init__(self, k: int, margins: Floats) -> None:
        self._k, self._margins = k, margins
        self._least_room = self._room = 8 * len(margins) * (k + 64)
        self._limits: Floats = np.full((_BLOCK, len(margins)), np.inf, dtype=np.float32)
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
    turned = np.ascontiguousarray((-1 if squares is None else -2) * queries.T)
    count = len(vectors) if among is None else len(among)
    room = np.empty((min(_BLOCK, count), len(queries)), dtype=np.float32)
    for start in range(0, count, _BLOCK):
        block = slice(start, start + _BLOCK) if among is None else among[start : start + _BLOCK]
        scores = room[: min(_BLOCK, count - start)]
        _multiply(vectors[block], turned, scores)
        if squares is not None:
            scores += squares[block, None]
        found.add(start, scores)
    rows = found.rows()
    return rows if among is None else [among[places] for places in rows]


def _multiply(block: Floats, turned: Floats, out: Floats) -> None:
    """`block [m, D] @ turned [D, Q]` into `out [m, Q]`, in pieces that need no copy where such are worth it."""
    rows = next((rows for rows in _PIECES if rows * turned.size <= _UNCOPIED), len(block))
    whole = len(block) - len(block) % rows
    # One call for all pieces: a matrix of three axes is multiplied piece by piece.
    pieces = out[:whole].reshape(-1, rows, out.shape[1])
    np.matmul(block[:whole].reshape(-1, rows, block.shape[1]), turned, out=pieces)
    np.matmul(block[whole:], turned, out=out[whole:])
