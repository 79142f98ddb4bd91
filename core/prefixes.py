"""Rows that are done but stay in their slots, for a later prompt that begins as they did.

Knows token ids and slot numbers. Does not know tensors, targets or requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass

#: A shorter common beginning is sooner read again than looked after.
MIN_SHARED = 8
#: A parked row may lose so many tokens from its end to the row that goes on from it; to save more, it is copied.
MAX_LOST = 64
#: A row waits for a neighbour's prompt to be read if that saves so many tokens: it costs a pass more.
WORTH_WAITING = 64

_STRIDE = 64


def common_prefix(first: Seq[int], second: Seq[int]) -> int:
    """How many tokens two lists have in common from the start on."""
    length = min(len(first), len(second))
    start = 0
    # Slices compare at the speed of C.
    while start < length and first[start : start + _STRIDE] == second[start : start + _STRIDE]:
        start += _STRIDE
    while start < length and first[start] == second[start]:
        start += 1
    return min(start, length)


@dataclass(eq=False)
class Held:
    """A slot and the tokens that its cache holds."""

    slot: int
    tokens: list[int]

    def can_give_up_all_but(self, num_tokens: int) -> bool:
        """Whether so little lies behind the first `num_tokens` that nobody will miss it."""
        return num_tokens >= MIN_SHARED and len(self.tokens) - num_tokens <= MAX_LOST


class ParkedRows:
    """At most `max_rows` rows, the one that was used least recently first."""

    def __init__(self, max_rows: int) -> None:
        self.max_rows = max_rows
        self._rows: list[Held] = []

    def __iter__(self) -> Iterator[Held]:
        return iter(tuple(self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    def make_room(self, tokens: Seq[int], shared: Callable[[Seq[int], Seq[int]], int]) -> None:
        """Drop what a row of `tokens` replaces, and else the row whose last use is the longest ago.

        `shared(tokens, held)` says how many tokens could be taken over from a row.
        """
        self._rows = [row for row in self._rows if not row.can_give_up_all_but(shared(tokens, row.tokens))]
        del self._rows[: max(0, len(self._rows) - self.max_rows + 1)]

    def add(self, row: Held) -> None:
        self._rows.append(row)
        assert len(self._rows) <= self.max_rows, "a row was parked without making room"

    def touch(self, row: Held) -> None:
        """The row was of use: it is dropped last."""
        self._rows.remove(row)
        self._rows.append(row)

    def remove(self, row: Held) -> None:
        self._rows.remove(row)

    def clear(self) -> None:
        self._rows.clear()

    def free_slot(self, start: int) -> int:
        """The first slot from `start` on that no parked row holds."""
        taken = {row.slot for row in self._rows}
        while start in taken:
            start += 1
        return start
