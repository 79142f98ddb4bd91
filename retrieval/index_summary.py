"""What an indexing tells: how far it is, and in the end what it changed.

Knows counts of files and passages. Does no indexing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .discovery import Skipped
from .document_records import FileRecord


@dataclass(frozen=True)
class Progress:
    """How far `DocumentIndex.index` is: `done` of `total` files read, passages embedded, or searches saved."""

    step: Literal["reading", "embedding", "saving"]
    done: int
    total: int
    path: str = ""


@dataclass(frozen=True)
class FileChanges:
    """How the readable files of an index differ between two moments, as counts."""

    added: int
    changed: int
    renamed: int
    unchanged: int
    removed: int

    @classmethod
    def between(cls, before: Mapping[str, FileRecord], after: Mapping[str, FileRecord]) -> FileChanges:
        """A file that is gone and one that came with the same content are one that was renamed."""
        old = {path: file.digest for path, file in before.items() if not file.reason}
        now = {path: file.digest for path, file in after.items() if not file.reason}
        added, removed, both = now.keys() - old.keys(), old.keys() - now.keys(), now.keys() & old.keys()
        gone, came = Counter(old[path] for path in removed), Counter(now[path] for path in added)
        renamed = (gone & came).total()
        changed = sum(now[path] != old[path] for path in both)
        return cls(len(added) - renamed, changed, renamed, len(both) - changed, len(removed) - renamed)


@dataclass(frozen=True)
class IndexSummary(FileChanges):
    """What an indexing changed: files that were read, with the reasons those that were not, and passages.

    `files` and `passages` are what the index holds now; `notice` says why meaning is not searched, if it is not.
    """

    skipped: tuple[Skipped, ...]
    files: int
    passages: int
    new_passages: int
    notice: str = ""
