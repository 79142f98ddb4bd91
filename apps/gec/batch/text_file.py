"""Reading text files, plain or gzip, line by line as bytes.

Knows compression, the byte order mark and how damaged files announce themselves. Does not know what a line
contains. Only `\n` ends a line, so that `\r\n` and stray control characters pass through untouched.
"""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from .errors import JobStopped, UsageError

BOM = codecs.BOM_UTF8
MAX_LINE_BYTES = 64 << 20  # a line is held in memory; beyond this the file is no text of lines


class TextFile:
    """An input file opened for one pass."""

    def __init__(self, path: Path, gzipped: bool) -> None:
        self.path = path
        self._num_bytes = path.stat().st_size
        self._raw = path.open("rb")
        self._stream = gzip.GzipFile(fileobj=self._raw) if gzipped else self._raw

    def refuse_utf16(self) -> None:
        """Raise if the file is in the other encoding that Windows programs write: every line would be bad."""
        try:
            start = self._stream.peek(2)[:2]
        except (OSError, EOFError, zlib.error):
            return  # damaged: `lines` says where
        if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise UsageError(f"{self.path} is UTF-16; convert it first: iconv -f utf-16 -t utf-8")

    def lines(self) -> Iterator[bytes]:
        """Each line with its line end; the last one may have none."""
        number = 0
        try:
            while line := self._stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise JobStopped(
                        f"{self.path}: line {number} is longer than {MAX_LINE_BYTES >> 20} MiB; "
                        "is this a text file with line ends?"
                    )
                yield line
        except EOFError:
            raise JobStopped(
                f"{self.path}: the gzip data end in the middle, after line {number}; "
                "the file is cut off, fetch it again"
            ) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise JobStopped(f"{self.path}: damaged gzip data after line {number} ({error})") from None

    def fraction(self) -> float:
        """How far the file itself (compressed, if it is) has been read, 0 to 1."""
        return self._raw.tell() / self._num_bytes if self._num_bytes else 1.0

    def close(self) -> None:
        self._stream.close()
        self._raw.close()


def line_end(line: bytes) -> bytes:
    """The line end of a line: CRLF, LF, or nothing at the end of the file."""
    if line.endswith(b"\r\n"):
        return b"\r\n"
    return b"\n" if line.endswith(b"\n") else b""
