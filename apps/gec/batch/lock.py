"""One run per OUT at a time.

Knows the lock file. The operating system holds the lock for the process, so a killed one holds nothing, and
the file that it leaves behind blocks nobody.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from .errors import UsageError


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`, or refuse at once if another run has it."""
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(
            f"another run is writing {path.with_suffix('')} at this moment; wait for it or end it"
        ) from None
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # while it is held: who gets the lock next sees its file gone and opens anew
        lock.release()
