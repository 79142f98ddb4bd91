"""Edits seen earlier, drafted at the place where they would occur again.

Knows source and output tokens of finished rows. Does not know what the tokens mean: "teh" -> "the" and
"informations" -> "information" are the same kind of thing here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence as Seq
from difflib import SequenceMatcher

#: Longer rewritings seldom come back word for word.
MAX_EDIT_TOKENS = 6


class CorrectionMemory:
    """What replaced which source tokens, with one token of context on each side; bounded, oldest out first.

    At most `max_entries` edits are kept: some 400 bytes each, so 8 MB when full.
    """

    def __init__(self, max_entries: int = 20_000) -> None:
        self.max_entries = max_entries
        self._edits: OrderedDict[tuple[int, ...], tuple[int, ...]] = OrderedDict()
        self._lengths: dict[int, set[int]] = {}

    def __len__(self) -> int:
        return len(self._edits)

    def learn(self, source: Seq[int], output: Seq[int]) -> None:
        """Remember the differences between a source and what was written for it."""
        matcher = SequenceMatcher(a=source, b=output, autojunk=False)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            if tag != "equal" and i1 > 0 and i2 < len(source) and max(i2 - i1, j2 - j1) <= MAX_EDIT_TOKENS:
                self._store(tuple(source[i1 - 1 : i2 + 1]), tuple(output[j1:j2]))

    def recall(self, source: Seq[int], position: int) -> tuple[tuple[int, ...], int] | None:
        """What was written the last time for the tokens at `position`, and where the copy went on.

        The longest remembered edit wins.
        """
        if position < 1:
            return None
        for length in sorted(self._lengths.get(source[position - 1], ()), reverse=True):
            written = self._edits.get(tuple(source[position - 1 : position - 1 + length]))
            if written is not None:
                return written, position + length - 2
        return None

    def _store(self, context: tuple[int, ...], written: tuple[int, ...]) -> None:
        self._edits[context] = written
        self._edits.move_to_end(context)
        self._lengths.setdefault(context[0], set()).add(len(context))
        if len(self._edits) > self.max_entries:
            self._edits.popitem(last=False)
