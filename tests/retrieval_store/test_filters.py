"""Conditions on metadata choose the passages that the same condition in Python would choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from retrieval import FaissStore
from retrieval.filters import to_sql

from .counting import random_matrix

ROWS: list[dict[str, Any]] = [
    {"source": "a.md", "page": 1, "draft": True},
    {"source": "a.md", "page": 2, "tag's key": "ü"},
    {"source": "b.md", "page": 3.5, "draft": False},
    {"source": "b.md", "page": "3"},
    {"source": None},
    {},
]
CASES: list[tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = [
    ({}, lambda m: True),
    ({"source": "a.md"}, lambda m: m.get("source") == "a.md"),
    ({"source": "a.md", "page": 2}, lambda m: m.get("source") == "a.md" and m.get("page") == 2),
    ({"page": {"$gt": 1, "$lte": 3.5}}, lambda m: m.get("page") in (2, 3.5)),
    ({"page": {"$gte": "2"}}, lambda m: m.get("page") == "3"),
    ({"page": {"$ne": 1}}, lambda m: m.get("page") != 1),
    ({"page": {"$in": [1, "3"]}}, lambda m: m.get("page") in (1, "3")),
    ({"page": {"$in": []}}, lambda m: False),
    ({"source": {"$nin": ["a.md"]}}, lambda m: m.get("source") != "a.md"),
    ({"source": {"$exists": True}}, lambda m: "source" in m),
    ({"page": {"$exists": False}}, lambda m: "page" not in m),
    ({"source": None}, lambda m: "source" in m and m["source"] is None),
    ({"draft": True}, lambda m: m.get("draft") is True),
    ({"tag's key": "ü"}, lambda m: m.get("tag's key") == "ü"),
    ({"$or": [{"page": 1}, {"draft": False}]}, lambda m: m.get("page") == 1 or m.get("draft") is False),
    ({"$and": [{"source": "b.md"}, {"page": {"$lt": 9}}]}, lambda m: m.get("page") == 3.5),
    ({"$not": {"page": 1}}, lambda m: m.get("page") != 1),
]


@pytest.fixture(scope="module", params=["flat", "hnsw"])
def store(request: pytest.FixtureRequest) -> FaissStore:
    store = FaissStore(None, index=request.param, durable=False)
    store.add_vectors([str(i) for i in range(len(ROWS))], ROWS, random_matrix(len(ROWS)))
    return store


@pytest.mark.parametrize(
    ("condition", "meant"), CASES, ids=lambda value: str(value) if isinstance(value, dict) else ""
)
def test_a_filter_means_what_it_says(store: FaissStore, condition: dict, meant: Callable) -> None:
    found = store.similarity_search_by_vector([1.0] * 16, k=99, filter=condition)
    assert sorted(d.page_content for d in found) == [str(i) for i, row in enumerate(ROWS) if meant(row)]


@pytest.mark.parametrize(
    "condition",
    [
        {"a": {"$like": "x"}},
        {"a": [1]},
        {"a": {"$in": "abc"}},
        {"$or": []},
        {"$xor": [{}]},
        {'a"b': 1},
        {"a": {"$gt": None}},
        "a = 1",
    ],
)
def test_a_filter_that_means_nothing_is_refused(condition: Any) -> None:
    with pytest.raises(ValueError, match=r"filter|takes a list"):
        to_sql(condition)
