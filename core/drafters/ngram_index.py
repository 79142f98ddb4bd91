"""Every place where the last tokens have occurred before, in any of several texts.

An n-gram position index (n = 1, 2, 3): appending costs O(1), and occurrences of a longer suffix are found by
comparing backwards from the places that share its last three tokens.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import NamedTuple


class Occurrence(NamedTuple):
    """`text[end]` is the token that followed a match of `length` tokens."""

    text: list[int]
    kind: str
    end: int
    length: int


class NgramIndex:
    """An index over texts; a text may go on growing through `append`."""

    def __init__(self, max_occurrences: int = 8, max_length: int = 16) -> None:
        self.max_occurrences = max_occurrences
        self.max_length = max_length
        self._texts: list[tuple[list[int], str]] = []
        self._places: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        # Texts are indexed when something is first looked for: a row that is copied whole never looks.
        self._unread: list[tuple[int, Seq[int]]] = []

    def add(self, tokens: Seq[int], kind: str) -> int:
        """Index a text; returns its handle for `append`."""
        handle = len(self._texts)
        self._texts.append(([], kind))
        self.append(handle, tokens)
        return handle

    def append(self, handle: int, tokens: Seq[int]) -> None:
        """Let a text grow."""
        self._unread.append((handle, list(tokens)))

    def _read(self, handle: int, tokens: Seq[int]) -> None:
        """Index each place under the one, two and three tokens in front of it."""
        text = self._texts[handle][0]
        places = self._places
        for token in tokens:
            text.append(token)
            end = len(text)
            for size in (1, 2, 3) if end > 2 else (1, 2)[:end]:
                places.setdefault(tuple(text[end - size :]), []).append((handle, end))

    def occurrences(self, suffix: Seq[int]) -> list[Occurrence]:
        """Places where the end of `suffix` occurred and something followed; longest matches first.

        Single-token matches are looked up only where nothing longer is found.
        """
        for unread in self._unread:
            self._read(*unread)
        self._unread.clear()
        found: dict[tuple[int, int], Occurrence] = {}
        for size in range(min(3, len(suffix)), 0, -1):
            if size == 1 and found:
                break
            for handle, end in reversed(self._places.get(tuple(suffix[-size:]), ())):
                text, kind = self._texts[handle]
                if (handle, end) not in found and end < len(text):
                    length = self._common_suffix(text, end, suffix, size)
                    found[handle, end] = Occurrence(text, kind, end, length)
                    if len(found) >= self.max_occurrences:
                        break
            if len(found) >= self.max_occurrences:
                break
        return sorted(found.values(), key=lambda o: -o.length)

    def _common_suffix(self, text: list[int], end: int, suffix: Seq[int], known: int) -> int:
        limit = min(self.max_length, end, len(suffix))
        length = known
        while length < limit and text[end - 1 - length] == suffix[-1 - length]:
            length += 1
        return length
