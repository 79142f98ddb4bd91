"""Many queries are answered by one product over pieces of the vectors; answers are those of every query alone."""

from __future__ import annotations

import numpy as np
import pytest

from retrieval.storage import product
from retrieval.storage.metric import Floats

from .conftest import Opener
from .counting import random_matrix


def scattered(count: int, dimension: int = 3) -> Floats:
    """Vectors that come nearer and nearer to what is asked, so that every block replaces what was found."""
    rng = np.random.default_rng(0)
    return np.sort(rng.standard_normal((count, dimension)).astype(np.float32), axis=0)[::-1].copy()


@pytest.mark.parametrize("k", [1, 40, 900])
@pytest.mark.parametrize("is_squared", [True, False])
@pytest.mark.parametrize("is_filtered", [True, False])
def test_a_product_over_blocks_finds_all_that_may_be_among_the_nearest_vectors(
    monkeypatch: pytest.MonkeyPatch, k: int, is_squared: bool, is_filtered: bool
) -> None:
    """Blocks smaller than what is asked for, and nearer vectors in later ones."""
    monkeypatch.setattr(product, "_BLOCK", 72)
    monkeypatch.setattr(product, "_QUERIES", 3)
    vectors = scattered(900)
    vectors[::7] *= np.float32(1 + 2.0**-22)
    queries = np.float32(3.0) * np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)
    squares = np.einsum("nd,nd->n", vectors, vectors) if is_squared else None
    among = np.flatnonzero(np.arange(900) % 5 < 3) if is_filtered else None
    margins = np.array([1e-4, 1e-4, 0.1, 0.1, 0.0], np.float32)
    found = product.nearest(queries, vectors, squares, k, margins, among)
    wide = vectors.astype(np.float64)
    scores = ((wide[None] - queries[:, None]) ** 2).sum(-1) if is_squared else -(queries @ wide.T)
    if among is not None:
        scores[:, np.setdiff1d(np.arange(900), among)] = np.inf
    for rows, exact, margin in zip(found, scores, margins, strict=True):
        limit = np.sort(exact)[k - 1]
        must = np.flatnonzero((exact <= limit + margin - 2e-5) & np.isfinite(exact))
        may = np.flatnonzero((exact <= limit + margin + 2e-5) & np.isfinite(exact))
        assert (np.diff(rows) > 0).all()
        assert {*must} <= {*rows} <= {*may}
        assert len(rows) >= min(k, np.isfinite(exact).sum())


def test_equal_vectors_are_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "_BLOCK", 72)
    vectors = np.ones((2000, 3), np.float32)
    (rows,) = product.nearest(vectors[:1], vectors, None, 1, np.zeros(1, np.float32))
    assert rows.tolist() == list(range(2000))


def test_among_no_vectors_none_is_found() -> None:
    found = product.nearest(
        np.ones((2, 3), np.float32),
        np.ones((5, 3), np.float32),
        None,
        1,
        np.zeros(2, np.float32),
        np.array([], int),
    )
    assert [rows.tolist() for rows in found] == [[], []]


def test_a_score_that_overflows_is_not_lost() -> None:
    huge = np.array([[3e38, -3e38], [1.0, 0.0]], dtype=np.float32)
    queries = np.array([[3e38, 3e38], [1.0, 0.0]], dtype=np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        found = product.nearest(queries, huge, None, 2, np.zeros(2, np.float32))
    assert [rows.tolist() for rows in found] == [[0, 1], [0, 1]]


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
@pytest.mark.parametrize("count", [5, 3000])
def test_a_batch_of_any_size_answers_to_the_last_bit_as_its_queries_alone(
    opened: Opener, metric: str, count: int
) -> None:
    """Thrice the same vectors, a rounding error apart: what is nearest hangs on the last bits."""
    matrix = random_matrix(count, 48)
    twins = np.concatenate([matrix, matrix * np.float32(1 + 2.0**-23), matrix])
    names = [f"{i:05}" for i in np.random.default_rng(2).permutation(3 * count)]
    store = opened(metric=metric)
    store.add_vectors(names, None, twins, ids=names)
    store.delete(names[: count // 2])  # labels are no longer places
    queries = np.concatenate([matrix[:20], random_matrix(20, 48, seed=3)])
    alone = [store.search_vectors(query[None], k=7) for query in queries]
    for size in (2, 3, 16, 40):
        found = store.search_vectors(queries[:size], k=7)
        assert found.ids == [one.ids[0] for one in alone[:size]]
        for scores, one in zip(found.scores, alone, strict=False):
            np.testing.assert_array_equal(scores, one.scores[0])


@pytest.mark.parametrize("metric", ["ip", "l2"])
def test_a_batch_sees_what_was_added_and_deleted_since_the_last_one(opened: Opener, metric: str) -> None:
    store = opened(metric=metric)
    matrix = random_matrix(300)
    names = [str(i) for i in range(300)]
    store.add_vectors(names[:200], None, matrix[:200], ids=names[:200])
    assert len(store.search_vectors(matrix[:2], k=300).ids[0]) == 200
    store.add_vectors(names[200:], None, 10 * matrix[200:], ids=names[200:])
    store.delete(names[:50])
    found = store.search_vectors(10 * matrix[200:210], k=1)
    if metric == "l2":
        assert found.ids == [[name] for name in names[200:210]]
    assert found.ids == [store.search_vectors(10 * row[None], k=1).ids[0] for row in matrix[200:210]]
    assert {*store.search_vectors(matrix[:2], k=300).ids[0]} == {*names[50:]}
