"""Which files of a folder are documents: names, links and kinds, without opening anything.

Knows the file system. Does not know formats beyond their suffixes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .loaders import LOADERS


@dataclass(frozen=True)
class Skipped:
    """A file that is not in the index, and why, as the end of a sentence that begins with its name."""

    path: str
    reason: str


@dataclass(frozen=True)
class Discovery:
    """Files to be read, in the order of their paths, and what was passed over."""

    files: tuple[Path, ...]
    skipped: tuple[Skipped, ...]


def discover(roots: Iterable[Path], excluded: Path | None = None) -> Discovery:
    """Documents below the roots, which are absolute files or folders.

    Links are followed, each folder is entered once (so loops end). Hidden names are passed over unless they are
    roots themselves, and so is the folder `excluded`. Raises ValueError for a root that does not exist.
    """
    seen: set[tuple[int, int]] = set()
    if excluded is not None and excluded.is_dir():
        seen.add(_identity(excluded))
    files: dict[Path, None] = {}
    skipped: dict[str, str] = {}
    for root in roots:
        if not root.exists():
            raise ValueError(
                f"{root} does not exist; check the path, or remove it from the index if it was deleted"
            )
        for path, reason in _below(root, seen) if root.is_dir() else [(root, _refusal(root))]:
            if reason:
                skipped[os.fsencode(path).decode("utf-8", "replace")] = reason
            else:
                files[path] = None
    return Discovery(tuple(sorted(files)), tuple(Skipped(*row) for row in sorted(skipped.items())))


def is_below(path: str, root: Path) -> bool:
    """Whether the path is the root or in it."""
    return path == str(root) or path.startswith(str(root).rstrip(os.sep) + os.sep)


def _below(root: Path, seen: set[tuple[int, int]]) -> Iterator[tuple[Path, str]]:
    """Every entry with the reason to skip it, or "". Folders are entered in the order of their names."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            if (identity := _identity(folder)) in seen:
                continue
            seen.add(identity)
            shown = [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith(".")]
            # A folder may let its names be listed and none of them be looked at.
            kinds = [(entry, entry.is_dir()) for entry in shown]
            files = [(entry, _refusal(entry)) for entry, is_folder in kinds if not is_folder]
        except OSError as error:
            yield folder, f"cannot be listed ({error.strerror})"
            continue
        waiting += reversed([entry for entry, is_folder in kinds if is_folder])
        yield from files


def _refusal(path: Path) -> str:
    if not path.exists():
        return "is a link to nothing"
    if not path.is_file():
        return "is no regular file"
    if path.suffix.lower() not in LOADERS:
        return f"is not of a kind that is read ({path.suffix.lower() or 'no suffix'})"
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        return "has a name that is not UTF-8; rename it"
    return ""


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino
