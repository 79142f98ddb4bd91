"""OUT as a growing file of bytes, for the formats whose rows are lines.

Knows how bytes become durable and how to go back to a mark. With gzip every append is a member of its own, so
that each mark is the end of a complete gzip file. Does not know what the bytes mean.
"""

import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from .errors import JobStopped
from .rows import Done


class Renderer(Protocol):
    """What turns rows into the bytes of a format."""

    preamble: bytes

    def render(self, done: Done) -> bytes: ...


class AppendFile:
    """A file that only grows, and can be cut back."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("ab")

    def rewind(self, num_bytes: int) -> None:
        """Cut the file to its first `num_bytes`."""
        present = self._path.stat().st_size
        if present < num_bytes:
            raise JobStopped(
                f"{self._path} has {present} bytes where its journal says {num_bytes}: something changed it; "
                "start anew with --overwrite"
            )
        self._file.truncate(num_bytes)

    def append(self, content: bytes) -> int:
        """Write, wait for the disk, return the new length."""
        self._file.write(content)
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


class ByteSink:
    """OUT for text, JSONL and CSV, plain or gzip."""

    def __init__(self, partial: Path, output: Path, renderer: Renderer, gzipped: bool) -> None:
        self._partial = partial
        self._output = output
        self._renderer = renderer
        self._gzipped = gzipped
        self._file: AppendFile | None = None

    def rewind(self, mark: int) -> None:
        self._file = AppendFile(self._partial)
        self._file.rewind(mark)
        if mark == 0 and (self._gzipped or self._renderer.preamble):
            # An empty gzip file needs a member as well.
            self._file.append(self._packed(self._renderer.preamble))

    def append(self, window: Sequence[Done]) -> int:
        assert self._file is not None, "rewind comes first"
        return self._file.append(self._packed(b"".join(map(self._renderer.render, window))))

    def _packed(self, content: bytes) -> bytes:
        return gzip.compress(content, compresslevel=6, mtime=0) if self._gzipped else content

    def publish(self) -> None:
        self.close()
        if self._partial.exists():  # else a run that was killed right here has done it
            os.replace(self._partial, self._output)

    def clean(self) -> None:
        """Nothing is left over: the partial file became OUT."""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
