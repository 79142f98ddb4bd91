"""The nearest vectors of many queries at once, read from memory once for all of them.

FAISS reads all vectors for every query of a few, and its matrix product for many is several times slower than
numpy's over small pieces: 8 queries over 200,000 x 384 on one core took it 100 ms, these pieces 43 ms. For one query
both took 26 ms, FAISS twice as long where other programs wanted the memory too. Candidates are rough, as FAISS's are;
who asks measures them again. n vectors, Q queries, D dimensions.
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
    """The `fetch` best of each query so far: rows, queries and scores in parallel, lower is nearer."""

    def __init__(self, num_queries: int, fetch: int) -> None:
        self._fetch = fetch
        self._room = 8 * num_queries * (fetch + 64)
        self._limits: Floats = np.full((_BLOCK, num_queries), np.inf, dtype=np.float32)
        self._rows: list[Labels] = []
        self._queries: list[Labels] = []
        self._scores: list[Floats] = []
        self._count = 0

    def add(self, start: int, scores: Floats) -> None:
        """Take in a block's scores [m, Q], its first vector being number `start`."""
        if not start and len(scores) > self._fetch:
            self._limits[:] = np.partition(scores, self._fetch - 1, axis=0)[self._fetch - 1]
        # Of one axis, and limits written out: numpy takes several times as long over rows of a few queries.
        places = np.flatnonzero(~(scores > self._limits[: len(scores)]).ravel())  # what overflowed stays
        rows, queries = np.divmod(places, scores.shape[1])
        self._rows.append(rows + start)
        self._queries.append(queries)
        self._scores.append(scores.ravel()[places])
        self._count += len(places)
        if self._count > self._room:
            self._shrink()

    def sorted(self) -> tuple[Floats, Labels]:
        """Scores and rows of each query [Q, fetch], nearest first."""
        self._shrink()
        shape = self._limits.shape[1], -1
        rows, scores = self._rows[0].reshape(shape), self._scores[0].reshape(shape)
        order = np.argsort(scores, axis=1, kind="stable")
        return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)

    def _shrink(self) -> None:
        rows, queries = np.concatenate(self._rows), np.concatenate(self._queries)
        scores = np.concatenate(self._scores)
        kept = []
        for query in range(self._limits.shape[1]):
            mine = np.flatnonzero(queries == query)
            if len(mine) >= self._fetch:
                mine = mine[np.argpartition(scores[mine], self._fetch - 1)[: self._fetch]]
                self._limits[:, query] = scores[mine].max()
            kept.append(mine)
        places = np.concatenate(kept)
        self._rows, self._queries, self._scores = [rows[places]], [queries[places]], [scores[places]]
        self._count = len(places)


def nearest(queries: Floats, vectors: Floats, squares: Floats | None, fetch: int) -> tuple[Floats, Labels]:
    """Scores and numbers of the `fetch` nearest vectors [Q, fetch], nearest first, as rounded as a product's.

    With `squares` [n], the vectors' squared lengths, squared distances; without, inner products, greatest first.
    `fetch` is at most n.
    """
    parts = [
        _nearest(queries[start : start + _QUERIES], vectors, squares, fetch)
        for start in range(0, len(queries), _QUERIES)
    ]
    scores, rows = (np.concatenate(part) for part in zip(*parts, strict=True))
    if squares is None:
        return -scores, rows
    return scores + np.einsum("qd,qd->q", queries, queries)[:, None], rows


def _nearest(queries: Floats, vectors: Floats, squares: Floats | None, fetch: int) -> tuple[Floats, Labels]:
    """As `nearest`; lower is nearer, and the same is left out of all scores of a query."""
    found = Candidates(len(queries), fetch)
    turned = np.ascontiguousarray((-1 if squares is None else -2) * queries.T)
    room = np.empty((min(_BLOCK, len(vectors)), len(queries)), dtype=np.float32)
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK]
        scores = room[: len(block)]
        _multiply(block, turned, scores)
        if squares is not None:
            scores += squares[start : start + _BLOCK, None]
        found.add(start, scores)
    return found.sorted()


def _multiply(block: Floats, turned: Floats, out: Floats) -> None:
    """`block [m, D] @ turned [D, Q]` into `out [m, Q]`, in pieces that need no copy where such are worth it."""
    rows = next((rows for rows in _PIECES if rows * turned.size <= _UNCOPIED), len(block))
    whole = len(block) - len(block) % rows
    # One call for all pieces: a matrix of three axes is multiplied piece by piece.
    pieces = out[:whole].reshape(-1, rows, out.shape[1])
    np.matmul(block[:whole].reshape(-1, rows, block.shape[1]), turned, out=pieces)
    np.matmul(block[whole:], turned, out=out[whole:])
