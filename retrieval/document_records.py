"""What an index knows of its files, and their passages: one SQLite file, the truth that the searches follow.

Knows rows. Does not know how files are read or passages searched.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from langchain_core.documents import Document

FORMAT = "1"
_WAIT_SECONDS = 60.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS roots (path TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL, read_at INTEGER NOT NULL,
    digest TEXT NOT NULL, recipe TEXT NOT NULL, reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS passages (
    id TEXT PRIMARY KEY, path TEXT NOT NULL REFERENCES files, number INTEGER NOT NULL, text TEXT NOT NULL,
    metadata TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS passages_by_path ON passages (path, number);
"""
# Of files with the same content, which have the same digest, the first is searched: one answer, one source.
_SEARCHED = "FROM passages WHERE path IN (SELECT MIN(path) FROM files WHERE reason = '' GROUP BY digest)"


@dataclass(frozen=True)
class FileRecord:
    """A file as it was read: times in nanoseconds; `digest` over content and format; `recipe` names everything
    else that its passages depend on; `reason` says why it has none."""

    path: str
    size: int
    modified: int
    read_at: int
    digest: str
    recipe: str
    reason: str = ""


class DocumentRecords:
    """The records of the index in a folder, which is created. Raises ValueError for a file that is no such thing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, check_same_thread=False)
        try:
            self._connection.executescript(_SCHEMA)
            found = self.setting("format")
        except sqlite3.OperationalError:
            raise  # a lock, or a folder that cannot be written: the file itself may be sound
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path} is damaged ({error}); delete {path.parent} and index again") from error
        if found is None:
            with self.change():
                self.set("format", FORMAT)
        elif found != FORMAT:
            raise ValueError(f"{path} has format {found}, not {FORMAT}; delete {path.parent} and index again")

    @contextmanager
    def change(self) -> Iterator[None]:
        """All the changes in the block, or none."""
        with self._connection:
            yield

    def setting(self, name: str) -> str | None:
        row = self._connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set(self, name: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    def roots(self) -> list[Path]:
        return [Path(path) for (path,) in self._connection.execute("SELECT path FROM roots ORDER BY path")]

    def add_root(self, root: Path) -> None:
        self._connection.execute("INSERT OR IGNORE INTO roots VALUES (?)", (str(root),))

    def remove_root(self, root: Path) -> None:
        self._connection.execute("DELETE FROM roots WHERE path = ?", (str(root),))

    def files(self) -> dict[str, FileRecord]:
        """Every file by its path, in the order of paths."""
        rows = self._connection.execute("SELECT * FROM files ORDER BY path")
        return {row[0]: FileRecord(*row) for row in rows}

    def put(self, file: FileRecord, passages: Sequence[Document]) -> None:
        """Replaces a file and its passages."""
        self.remove(file.path)
        row = (file.path, file.size, file.modified, file.read_at, file.digest, file.recipe, file.reason)
        self._connection.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        rows = [
            (
                passage.id,
                file.path,
                number,
                passage.page_content,
                json.dumps(passage.metadata, ensure_ascii=False),
            )
            for number, passage in enumerate(passages)
        ]
        self._connection.executemany("INSERT INTO passages VALUES (?, ?, ?, ?, ?)", rows)

    def touch(self, path: str, size: int, modified: int, read_at: int) -> None:
        """Notes that a file was looked at again and is the same."""
        values = (size, modified, read_at, path)
        self._connection.execute(
            "UPDATE files SET size = ?, modified = ?, read_at = ? WHERE path = ?", values
        )

    def remove(self, path: str) -> None:
        self._connection.execute("DELETE FROM passages WHERE path = ?", (path,))
        self._connection.execute("DELETE FROM files WHERE path = ?", (path,))

    def passage_ids(self) -> list[str]:
        """Ids of the passages to be searched, in the order of files and places."""
        return [name for (name,) in self._connection.execute(f"SELECT id {_SEARCHED} ORDER BY path, number")]

    def passages(self, ids: Sequence[str] | None = None) -> Iterator[Document]:
        """The passages to be searched; those of `ids` only, in their order, where given."""
        columns = "SELECT id, text, metadata"
        if ids is None:
            rows = self._connection.execute(f"{columns} {_SEARCHED} ORDER BY path, number").fetchall()
        else:
            one = f"{columns} FROM passages WHERE id = ?"
            rows = [self._connection.execute(one, (name,)).fetchone() for name in ids]
        for name, text, metadata in rows:
            yield Document(id=name, page_content=text, metadata=json.loads(metadata))

    def close(self) -> None:
        self._connection.close()
