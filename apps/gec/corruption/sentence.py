"""A sentence cut into words, gaps and protected pieces, so that errors can be put in and text put back.

Knows what must never be touched: numbers, URLs, mail addresses, paths, identifiers, inline code, acronyms.
"""

from __future__ import annotations

import re

_LEAD = "([{\"'“‘«—–-*"
_TRAIL = ".,;:!?)]}\"'”’»—–-*…"
_ODD = re.compile(r"[0-9_/\\@#`<>{}=|~^$+&%]|[a-z][A-Z]|\w\.\w|::|\(\)")
_PIECE = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|.", re.DOTALL)
_CHUNK = re.compile(r"\S+")


class Sentence:
    """Words with the white space before each; `free[i]` says whether word i may (still) be changed."""

    __slots__ = ("edits", "free", "gaps", "tail", "words")

    def __init__(self, text: str) -> None:
        self.words: list[str] = []
        self.gaps: list[str] = []
        self.free: list[bool] = []
        self.edits = 0
        end = 0
        in_code = False
        for match in _CHUNK.finditer(text):
            gap = text[end : match.start()]
            end = match.end()
            chunk = match.group()
            ticks = chunk.count("`")
            if in_code or ticks % 2:
                self._push(chunk, gap, False)
                in_code = in_code != (ticks % 2 == 1)
                continue
            self._split(chunk, gap)
        self.tail = text[end:]

    def _push(self, word: str, gap: str, free: bool) -> None:
        self.words.append(word)
        self.gaps.append(gap)
        self.free.append(free)

    def _split(self, chunk: str, gap: str) -> None:
        left = len(chunk) - len(chunk.lstrip(_LEAD))
        core = chunk[left:].rstrip(_TRAIL)
        if core.endswith("(") and chunk.startswith(")", left + len(core)):
            core += ")"  # of a call
        right = left + len(core)
        for mark in chunk[:left]:
            self._push(mark, gap, True)
            gap = ""
        if core and _ODD.search(core):
            self._push(core, gap, False)
            gap = ""
        else:
            for piece in _PIECE.findall(core):
                acronym = len(piece) > 1 and piece.isupper()
                self._push(piece, gap, not acronym)
                gap = ""
        for mark in chunk[right:]:
            self._push(mark, gap, True)
            gap = ""

    def __len__(self) -> int:
        return len(self.words)

    def lower(self, i: int) -> str:
        """Word i in lower case; an empty string outside the sentence."""
        return self.words[i].lower() if 0 <= i < len(self.words) else ""

    def is_word(self, i: int) -> bool:
        """Whether piece i is an ordinary word that may still be changed."""
        return 0 <= i < len(self.words) and self.free[i] and self.words[i][:1].isalpha()

    def starts(self, i: int) -> bool:
        """Whether word i begins a sentence (nothing but marks before it, or a full stop)."""
        while i > 0 and self.words[i - 1] in "\"'“‘([`''``":
            i -= 1
        return i == 0 or self.words[i - 1] in ".!?"

    def is_name(self, i: int) -> bool:
        """Whether word i looks like a name: a capital in the middle of a sentence."""
        word = self.words[i]
        return word[:1].isupper() and word != "I" and not word.startswith("I'") and not self.starts(i)

    def put(self, i: int, new: str) -> bool:
        """Replace word i, keeping its capital; an empty string removes it."""
        old = self.words[i]
        if new and old[:1].isupper() and new[:1].islower() and (old != "I" or self.starts(i)):
            new = new[0].upper() + new[1:]
        return self.put_raw(i, new)

    def put_raw(self, i: int, new: str) -> bool:
        """Replace word i exactly as given."""
        if new == self.words[i]:
            return False
        if not new and self.starts(i):
            self._capital_moves(i)
        self.words[i] = new
        self.free[i] = False
        self.edits += 1
        return True

    def _capital_moves(self, i: int) -> None:
        """When the first word goes, the next one usually takes over its capital."""
        old = self.words[i]
        if old[:1].isupper() and i + 1 < len(self.words) and self.free[i + 1]:
            following = self.words[i + 1]
            self.words[i + 1] = following[:1].upper() + following[1:]

    def text(self) -> str:
        """The sentence as it now reads."""
        out: list[str] = []
        for word, gap in zip(self.words, self.gaps, strict=True):
            if word:
                out.append((gap if out else self.gaps[0]) + word)
        return "".join(out) + self.tail
