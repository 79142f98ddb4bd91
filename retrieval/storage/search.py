"""The nearest passages of a view: an index's candidates, scored again so that answers never depend on the batch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from retrieval.storage.metric import Floats, Hits
from retrieval.storage.vectors import Labels
from retrieval.storage.view import View

SPARE = 16  # candidates of an approximate index beyond 4k
SCANNED = 10_000  # an approximate index is passed over where a filter leaves no more than this


def nearest(view: View, queries: Floats, k: int, allowed: Labels | None = None) -> Hits:
    """The k nearest of the allowed passages for prepared `queries [Q, D]`; equal scores in the order of ids.

    Exact over a flat index, whatever rounding did. Approximate candidates are scored exactly too, so scores
    always compare.
    """
    if k < 1:
        raise ValueError(f"k is {k}; ask for at least one passage")
    count = len(view.id_of) if allowed is None else len(allowed)
    if view.index is None or not count:
        return Hits([[] for _ in queries], [np.empty(0, dtype=np.float32) for _ in queries])
    if allowed is not None and not view.index.exact and count <= SCANNED:
        return among(view, queries, k, allowed)
    fetch = min(count, k if view.index.exact else 4 * k + SPARE)
    candidates = view.index.candidates(queries, fetch, allowed)
    return _hits(_score(view, query, labels, k) for query, labels in zip(queries, candidates, strict=True))


def among(view: View, queries: Floats, k: int, labels: Labels) -> Hits:
    """The k nearest of these labels, compared one by one; the same scores as `nearest`."""
    return _hits(_score(view, query, labels, k) for query in queries)


def _hits(found: Iterable[tuple[list[str], Floats]]) -> Hits:
    """The answers of several queries as one."""
    answers = list(found)
    return Hits([ids for ids, _ in answers], [scores for _, scores in answers])


def _score(view: View, query: Floats, labels: Labels, k: int) -> tuple[list[str], Floats]:
    scores = view.metric.scores(query, view.stored_vectors(labels.tolist()))
    return view.metric.best([view.id_of[label] for label in labels.tolist()], scores, k)
