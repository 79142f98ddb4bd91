"""The nearest passages of a view: an index's candidates, scored again so that answers never depend on the batch."""

from __future__ import annotations

import numpy as np

from retrieval.storage.metric import Floats, Hits, Metric
from retrieval.storage.vectors import Labels, VectorIndex
from retrieval.storage.view import View

SPARE = 16  # candidates beyond k, so that rounding at the edge seldom asks for a second search
SCANNED = 10_000  # an approximate index is passed over where a filter leaves no more than this


def nearest(view: View, queries: Floats, k: int, allowed: Labels | None = None) -> Hits:
    """The k nearest of the allowed passages for prepared `queries [Q, D]`; equal scores in the order of ids.

    Exact over a flat index, whatever rounding did: it searches on while the last candidate could
    still be as near as the k-th. Approximate candidates are scored exactly too, so scores always compare.
    """
    if k < 1:
        raise ValueError(f"k is {k}; ask for at least one passage")
    count = len(view.id_of) if allowed is None else len(allowed)
    if view.index is None or not count:
        return Hits([[] for _ in queries], [np.empty(0, dtype=np.float32) for _ in queries])
    if allowed is not None and not view.index.exact and count <= SCANNED:
        return among(view, queries, k, allowed)
    hits = Hits([[]] * len(queries), [np.empty(0, dtype=np.float32)] * len(queries))
    open_rows, fetch = np.arange(len(queries)), min(count, k + SPARE if view.index.exact else 4 * k + SPARE)
    while len(open_rows):
        rough, labels = view.index.candidates(queries[open_rows], fetch, allowed)
        unsure = []
        for row, near, found in zip(open_rows, rough, labels, strict=True):
            found = found[found >= 0]
            hits.ids[row], hits.scores[row] = _score(view, queries[row], found, k)
            last = near[len(found) - 1] if len(found) else 0.0
            if (
                view.index.exact
                and len(found) < count
                and not _settled(view.index, queries[row], hits.scores[row], last)
            ):
                unsure.append(row)
        open_rows, fetch = np.array(unsure, dtype=np.int64), min(count, 4 * fetch)
    return hits


def among(view: View, queries: Floats, k: int, labels: Labels) -> Hits:
    """The k nearest of these labels, compared one by one; the same scores as `nearest`."""
    found = [_score(view, query, labels, k) for query in queries]
    return Hits([ids for ids, _ in found], [scores for _, scores in found])


def _score(view: View, query: Floats, labels: Labels, k: int) -> tuple[list[str], Floats]:
    scores = view.metric.scores(query, view.stored_vectors(labels.tolist()))
    return view.metric.best([view.id_of[label] for label in labels.tolist()], scores, k)


def _settled(index: VectorIndex, query: Floats, best: Floats, last: float) -> bool:
    """Whether nothing beyond the last candidate can be as near as the k-th."""
    metric: Metric = index.metric
    margin = 2 * metric.rounding(query, index.longest)
    return last + margin < best[-1] if metric.higher_is_nearer else last - margin > best[-1]
