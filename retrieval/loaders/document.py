"""A document as text, and the map from places in the text to headings and pages.

Knows characters and offsets. Does not know files or formats.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from dataclasses import dataclass

# What libraries let through from the inside of damaged files; RuntimeError covers endless recursion and locked
# archives, SyntaxError broken XML.
DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    zlib.error,
)


class UnreadableFileError(ValueError):
    """A file out of which no text can be had; the message says why, without the path."""


@dataclass(frozen=True)
class Section:
    """Text from one heading to the next: `[start, end)`; what follows the heading's own line is at `body`.

    `headings` leads from the outermost heading to this one; it is empty before the first heading.
    """

    start: int
    body: int
    end: int
    headings: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadedDocument:
    """What a loader makes of a file. Sections follow each other in order and do not overlap.

    `page_starts[i]` is the offset where page i + 1 begins; it is empty for formats without pages.
    """

    text: str
    title: str
    sections: tuple[Section, ...]
    page_starts: tuple[int, ...] = ()

    @classmethod
    def plain(cls, text: str, title: str) -> LoadedDocument:
        """A document without structure."""
        return cls(text, title, (Section(0, 0, len(text)),))

    def page_at(self, offset: int) -> int | None:
        """The page, from 1, of the character at `offset`; None for a document without pages."""
        return bisect_right(self.page_starts, offset) or None


class DocumentBuilder:
    """Puts a document together block by block, in reading order."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._path: list[tuple[int, str]] = []
        self._marks: list[tuple[int, int, tuple[str, ...]]] = [(0, 0, ())]

    @property
    def first_heading(self) -> str:
        """The document's first heading, "" where there is none."""
        return next((headings[-1] for _, _, headings in self._marks if headings), "")

    def block(self, text: str, gap: str = "\n\n") -> None:
        """Adds a paragraph and the gap behind it; blank ones are left out."""
        if text.strip():
            self._pieces.append(text + gap)
            self._length += len(text) + len(gap)

    def heading(self, level: int, title: str) -> None:
        """Begins a section below the nearest heading of a lower level; blank titles are left out."""
        if not title.strip():
            return
        self._path = [(outer, name) for outer, name in self._path if outer < level] + [(level, title)]
        start = self._length
        self.block(title)
        self._marks.append((start, self._length, tuple(name for _, name in self._path)))

    def document(self, title: str, page_starts: tuple[int, ...] = ()) -> LoadedDocument:
        """All of it, without blanks at the end."""
        text = "".join(self._pieces).rstrip()
        return LoadedDocument(text, title, sections(self._marks, len(text)), page_starts)


def sections(marks: list[tuple[int, int, tuple[str, ...]]], end: int) -> tuple[Section, ...]:
    """Sections from marks of (start, body, headings) in order, each up to the next; empty ones are left out."""
    ends = [start for start, _, _ in marks[1:]] + [end]
    return tuple(
        Section(start, min(body, stop), stop, headings)
        for (start, body, headings), stop in zip(marks, ends, strict=True)
        if start < stop
    )


def storable(text: str) -> str:
    """The text without what databases and tokenizers refuse: NULs, and the lone surrogates of broken files."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
