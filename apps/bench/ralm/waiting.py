"""Retrievers whose price is chosen: a wait before the answers, and guesses that are right as often as is wished."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from apps.ralm.cache import DocumentCache, ScoredCache
from apps.ralm.retrievers import Query, Retriever

#: b1 as a share of b0: a batch costs a little more than one query.
PER_QUERY = 0.005


class Slowed(Retriever):
    """A retriever behind a wait of base * (1 + 0.005 n) seconds for n queries."""

    def __init__(self, inner: Retriever, base: float) -> None:
        self._inner, self._base = inner, base

    def encode(self, texts: Sequence[str]) -> list[Query]:
        return self._inner.encode(texts)

    def search(self, queries: Sequence[Query], k: int) -> list[list[str]]:
        time.sleep(self._base * (1 + PER_QUERY * len(queries)))
        return self._inner.search(queries, k)

    def text(self, name: str) -> str:
        return self._inner.text(name)

    def cache(self) -> DocumentCache:
        return self._inner.cache()


class Controlled(Retriever):
    """Always answers with one passage; caches guess it with probability `hit_rate`, else another one."""

    def __init__(self, texts: Sequence[str], hit_rate: float) -> None:
        assert len(texts) == 2, "the right one and the wrong one"
        self._texts = dict(zip(("right", "wrong"), texts, strict=True))
        self._hit_rate = hit_rate

    def search(self, queries: Sequence[Query], k: int) -> list[list[str]]:
        return [["right"] for _ in queries]

    def text(self, name: str) -> str:
        return self._texts[name]

    def cache(self) -> DocumentCache:
        return _Chance(self._hit_rate)


class _Chance(ScoredCache):
    def __init__(self, hit_rate: float) -> None:
        super().__init__(lambda query, names: [0.0] * len(names))
        self._hit_rate = hit_rate
        self._random = random.Random(0)

    def _best(self, query: Query) -> str | None:
        return "right" if self._random.random() < self._hit_rate else "wrong"
