"""The longest suffix of what was written that occurred before, found in constant time for each token.

Knows token sequences: the suffix automaton of a growing text (Blumer et al. 1985). Does not know rows or drafts.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

#: Ends a text within the automaton's text; matches never cross it.
SEPARATOR = -1


class SuffixAutomaton:
    """All substrings of `text`, which grows by `append` in amortised constant time. Memory: some 700 bytes for each
    token (at most two states)."""

    def __init__(self) -> None:
        self.text: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._first_end = [0]
        self._last = 0

    def extend(self, tokens: Seq[int]) -> None:
        for token in tokens:
            self.append(token)

    def append(self, token: int) -> None:
        self.text.append(token)
        last = self._last
        state = self._last = self._add({}, self._length[last] + 1, len(self.text))
        while last >= 0 and token not in self._next[last]:
            self._next[last][token] = state
            last = self._link[last]
        if last >= 0:
            self._link[state] = self._split(last, token)

    def advance(self, state: int, length: int, token: int) -> tuple[int, int]:
        """State and length of the longest suffix of (the matched stretch + token) that occurs in the text."""
        if token == SEPARATOR:
            return 0, 0
        while state and (length <= self._length[self._link[state]] or token not in self._next[state]):
            # A state that was split since keeps only the longer stretches: shorter ones belong to its link.
            if length > self._length[self._link[state]]:
                length = self._length[self._link[state]]
            state = self._link[state]
        following = self._next[state].get(token)
        return (0, 0) if following is None else (following, min(length, self._length[state]) + 1)

    def first_end(self, state: int) -> int:
        """Where the text goes on behind the first occurrence of a state's stretches."""
        return self._first_end[state]

    def _add(self, following: dict[int, int], length: int, first_end: int) -> int:
        self._next.append(following)
        self._length.append(length)
        self._link.append(0)
        self._first_end.append(first_end)
        return len(self._length) - 1

    def _split(self, state: int, token: int) -> int:
        """The state for the stretches of `state` + token, apart from longer ones that occurred earlier."""
        following = self._next[state][token]
        length = self._length[state] + 1
        if self._length[following] == length:
            return following
        clone = self._add(dict(self._next[following]), length, self._first_end[following])
        self._link[clone] = self._link[following]
        self._link[following] = clone
        while state >= 0 and self._next[state].get(token) == following:
            self._next[state][token] = clone
            state = self._link[state]
        return clone
