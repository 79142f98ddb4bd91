"""`.txt`: a line is a row.

Knows that everything except the corrected text stays byte for byte: line ends, a missing last one, the byte
order mark, and rejected lines as they were.
"""

from collections.abc import Iterator
from itertools import islice

from .rows import Done, Row, decoded, text_or_reason
from .text_file import BOM, TextFile, line_end


class TextRows:
    """The lines of a text file as rows, and back."""

    preamble = b""
    holds_line_breaks = False

    def __init__(self, file: TextFile, max_chars: int) -> None:
        self._file = file
        self._max_chars = max_chars

    def rows(self, skip: int) -> Iterator[Row]:
        for number, line in enumerate(islice(self._file.lines(), skip, None), skip + 1):
            start = len(BOM) if number == 1 and line.startswith(BOM) else 0
            text, reason = decoded(line[start : len(line) - len(line_end(line))])
            if text is not None:
                text, reason = text_or_reason(text, self._max_chars)
            yield Row(number, line, len(line), text, reason)

    def fraction(self) -> float:
        return self._file.fraction()

    def close(self) -> None:
        self._file.close()

    def render(self, done: Done) -> bytes:
        line: bytes = done.row.source
        if done.corrected is None:
            return line
        mark = BOM if done.row.number == 1 and line.startswith(BOM) else b""
        return mark + done.corrected.encode() + line_end(line)
