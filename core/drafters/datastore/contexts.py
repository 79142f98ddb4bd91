"""All places of a corpus, sorted by the tokens in front of them.

Knows arrays of token ids. Does not know files or drafters.

It is the suffix array of the text read backwards: places whose contexts agree longest stand side by side, so one binary
search finds the longest match of what was written (the usual suffix array needs one for each length).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence as Seq
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.integer]

#: Contexts are told apart by so many tokens.
MAX_CONTEXT = 16


class Match(NamedTuple):
    """`positions` of the tokens that followed a context of `length` tokens."""

    positions: Ids
    length: int


def sort_places(tokens: Ids) -> npt.NDArray[np.int64]:
    """Places 1..n-1 in the order of their contexts (last token first), by prefix doubling: O(n log n) four times."""
    size = len(tokens)
    ranks = tokens[::-1].astype(np.int64) + 1
    width = 1
    while width < MAX_CONTEXT and size:
        further = np.zeros_like(ranks)
        further[:-width] = ranks[width:]
        ranks = np.unique(ranks * (ranks.max() + 1) + further, return_inverse=True)[1] + 1
        width *= 2
    places = size - np.argsort(ranks, kind="stable")
    return places[places < size]


class Contexts:
    """A corpus and its sorted places, in memory or mapped from a file."""

    def __init__(self, tokens: Ids, places: Ids) -> None:
        self.tokens = tokens
        self.places = places

    def longest_match(self, written: Seq[int]) -> Match:
        """Where the longest suffix of `written` (of at most MAX_CONTEXT tokens) occurs and something follows."""
        wanted = list(written[: -MAX_CONTEXT - 1 : -1])
        near = bisect_left(self.places, wanted, key=self._context)
        length = 0
        for neighbour in (near - 1, near):
            if 0 <= neighbour < len(self.places):
                length = max(length, _common(self._context(self.places[neighbour]), wanted))
        if not length:
            return Match(self.places[:0], 0)

        def begins(place: np.integer) -> list[int]:
            return self._context(place)[:length]

        first = bisect_left(self.places, wanted[:length], key=begins)
        end = bisect_right(self.places, wanted[:length], first, key=begins)
        return Match(self.places[first:end], length)

    def _context(self, place: np.integer) -> list[int]:
        """The tokens in front of a place, the nearest first."""
        end = int(place)
        context: list[int] = self.tokens[max(0, end - MAX_CONTEXT) : end][::-1].tolist()
        return context


def _common(a: Seq[int], b: Seq[int]) -> int:
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))
