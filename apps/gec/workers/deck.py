"""Texts dealt out to workers, so that all of them finish together.

Knows lengths. The longest texts go first and the units become smaller towards the end (guided self-scheduling,
Polychronopoulos and Kuck, 1987): whoever is late at the end is late by a small unit. A unit's texts are of like
length, which shares padding best. Lengths are characters: they tell the work of a text before any model has seen it.
"""

from __future__ import annotations

from collections.abc import Sequence


class Deck:
    """The texts that nobody works on yet. `smallest` and `largest` bound a unit, in characters."""

    def __init__(self, texts: Sequence[str], smallest: int, largest: int) -> None:
        assert 0 < smallest <= largest, "a unit has a size"
        self._lengths = [len(text) + 1 for text in texts]  # an empty text is work too
        self._order = sorted(range(len(texts)), key=lambda i: -self._lengths[i])
        self._next = 0
        self._smallest = smallest
        self._largest = largest
        self.chars_left = sum(self._lengths)

    def deal(self, num_workers: int, *, is_trial: bool = False) -> list[int]:
        """The indices of the next unit, where so many workers share what is left; none at the end.

        A trial is a smallest unit: for a worker whose speed nobody knows yet.
        """
        share = self.chars_left if num_workers == 1 else self.chars_left // (2 * num_workers)
        wanted = min(max(0 if is_trial else share, self._smallest), self._largest)
        start = self._next
        while self._next < len(self._order) and wanted > 0:
            length = self._lengths[self._order[self._next]]
            wanted -= length
            self.chars_left -= length
            self._next += 1
        return self._order[start : self._next]
