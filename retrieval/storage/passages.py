"""Passages and their vectors in one SQLite file, each row with the generations in which it is alive.

A row is born in one generation and may die in a later one; rows never change in between. Whoever reads
generation g sees the rows born by then and not yet dead, whatever a writer is doing, and what a writer left
behind that died before its manifest was in place is newer than g: invisible, and removed by the next writer.
Knows no FAISS, no embedding.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from retrieval.storage.metric import Floats
from retrieval.storage.sealed import broken

FILE = "passages.sqlite"
MANY = 500  # bound parameters per statement; SQLite's own limit is higher everywhere
TABLES = """
CREATE TABLE store (name TEXT NOT NULL);
CREATE TABLE passages (
    label INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, born INTEGER NOT NULL, died INTEGER,
    metadata TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE vectors (label INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE INDEX passages_id ON passages (id);
CREATE INDEX passages_born ON passages (born);
CREATE INDEX passages_died ON passages (died) WHERE died IS NOT NULL;
"""
ALIVE = "born <= :generation AND (died IS NULL OR died > :generation)"
ROWS = "SELECT label, id, metadata, text, vector FROM passages LEFT JOIN vectors USING (label)"


class Row(NamedTuple):
    label: int
    id: str
    metadata: str
    text: str
    vector: bytes

    def digest(self) -> int:
        """128 bits over everything that the row says; lengths keep neighbouring fields apart."""
        content = hashlib.sha256(
            bytes(self.vector or b"")
        )  # a damaged file may lack it, or have another type
        for part in (self.id, self.metadata, self.text):
            encoded = str(part).encode()
            content.update(len(encoded).to_bytes(8, "little") + encoded)
        content.update(self.label.to_bytes(8, "little"))
        return int.from_bytes(content.digest()[:16], "little")


class PassageFile:
    """One open connection. `texts`, `vectors` and `matching` may be called from several threads."""

    def __init__(self, folder: Path, store: str, *, create: bool = False, durable: bool = True) -> None:
        self.path = folder / FILE
        if create and not self.path.exists():
            self._connect("rwc")
            self._create(store)
        else:
            if not self.path.exists():
                raise broken(self.path, "is missing")
            self._connect("rw")
        self._check(store)
        if not durable:
            self.db.execute("PRAGMA synchronous = OFF")

    def _connect(self, mode: str) -> None:
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        self.db = sqlite3.connect(uri, uri=True, timeout=60, isolation_level=None, check_same_thread=False)
        self._turn = threading.Lock()
        self._closing = weakref.finalize(self, self.db.close)

    def _create(self, store: str) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        for statement in TABLES.split(";\n"):
            self.db.execute(statement)
        self.db.execute("INSERT INTO store VALUES (?)", (store,))
        self.db.execute("COMMIT")

    def _check(self, store: str) -> None:
        pages, size = self.one("PRAGMA page_count")[0], self.one("PRAGMA page_size")[0]
        if self.path.stat().st_size < pages * size:
            raise broken(self.path, f"is shorter than its {pages} pages")
        if self.one("SELECT name FROM store") != (store,):
            raise broken(self.path, "belongs to another store")

    def check_structure(self) -> None:
        """Let SQLite compare its tables and indexes: a lookup by id must not miss a row that is there."""
        if (found := self.one("PRAGMA integrity_check(1)")) != ("ok",):
            raise broken(self.path, f"is damaged ({found[0] if found else 'unreadable'})")

    def close(self) -> None:
        self._closing()

    def query(self, sql: str, values: Any = ()) -> Iterator[tuple[Any, ...]]:
        """Rows of a statement; a file that SQLite cannot make sense of raises ValueError."""
        try:
            yield from self.db.execute(sql, values)
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "full" in str(error) or "readonly" in str(error):
                raise
            raise broken(self.path, f"cannot be read ({error})") from error
        except sqlite3.DatabaseError as error:
            raise broken(self.path, f"cannot be read ({error})") from error

    def one(self, sql: str, values: Any = ()) -> tuple[Any, ...]:
        return next(self.query(sql, values), ())

    # Reading a generation

    def alive(self, generation: int) -> Iterator[Row]:
        """Rows alive in a generation, in the order of their labels."""
        yield from map(
            Row._make, self.query(f"{ROWS} WHERE {ALIVE} ORDER BY label", {"generation": generation})
        )

    def step(self, generation: int) -> tuple[list[Row], list[Row]]:
        """Rows that the change to this generation brought and removed."""
        with self._turn:
            born = self.query(f"{ROWS} WHERE born = ? ORDER BY label", (generation,))
            died = self.query(f"{ROWS} WHERE died = ? ORDER BY label", (generation,))
            return list(map(Row._make, born)), list(map(Row._make, died))

    def texts(self, labels: Sequence[int]) -> dict[int, tuple[str, str, str]]:
        """`(id, text, metadata)` by label; a label that is gone is left out."""
        found: dict[int, tuple[str, str, str]] = {}
        for chunk in chunks(labels):
            marks = ",".join("?" * len(chunk))
            sql = f"SELECT label, id, text, metadata FROM passages WHERE label IN ({marks})"
            with self._turn:
                found.update(
                    (label, (name, text, meta)) for label, name, text, meta in self.query(sql, chunk)
                )
        return found

    def vectors(self, labels: Sequence[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for chunk in chunks(labels):
            marks = ",".join("?" * len(chunk))
            with self._turn:
                rows = self.query(f"SELECT label, vector FROM vectors WHERE label IN ({marks})", chunk)
                found.update((label, vector) for label, vector in rows)
        return found

    def matching(self, generation: int, condition: str, values: dict[str, Any]) -> np.ndarray:
        """Labels `[n]` of the generation whose metadata meet an SQL condition."""
        sql = f"SELECT label FROM passages WHERE {ALIVE} AND ({condition}) ORDER BY label"
        with self._turn:
            rows = self.query(sql, {"generation": generation, **values})
            return np.fromiter((label for (label,) in rows), dtype=np.int64)

    # Writing the next generation; the caller holds the lock

    def discard_newer(self, generation: int) -> None:
        """Remove what a writer left that ended before it committed."""
        self.db.execute("BEGIN IMMEDIATE")
        newer = (generation,)
        self.db.execute(
            "DELETE FROM vectors WHERE label IN (SELECT label FROM passages WHERE born > ?)", newer
        )
        self.db.execute("DELETE FROM passages WHERE born > ?", newer)
        self.db.execute("UPDATE passages SET died = NULL WHERE died > ?", newer)
        self.db.execute("COMMIT")

    def purge(self, generation: int) -> None:
        """Remove the rows that were dead in a generation already."""
        self.db.execute("BEGIN IMMEDIATE")
        dead = (generation,)
        self.db.execute(
            "DELETE FROM vectors WHERE label IN (SELECT label FROM passages WHERE died <= ?)", dead
        )
        self.db.execute("DELETE FROM passages WHERE died <= ?", dead)
        self.db.execute("COMMIT")

    def standing(self, passage_id: str) -> Row | None:
        """The row that an id has now, those of the generation being written included."""
        found = self.one(f"{ROWS} WHERE id = ? AND died IS NULL", (passage_id,))
        return Row._make(found) if found else None

    def standing_ids(self) -> list[str]:
        """The ids of all rows that stand now, those of the generation being written included."""
        return [name for (name,) in self.query("SELECT id FROM passages WHERE died IS NULL", ())]

    def insert(self, passage_id: str, metadata: str, text: str, vector: bytes, born: int) -> Row:
        sql = "INSERT INTO passages (id, born, metadata, text) VALUES (?, ?, ?, ?)"
        label = self.db.execute(sql, (passage_id, born, metadata, text)).lastrowid
        assert label is not None
        self.db.execute("INSERT INTO vectors VALUES (?, ?)", (label, vector))
        return Row(label, passage_id, metadata, text, vector)

    def bury(self, label: int, generation: int) -> None:
        """A row of an earlier generation dies in this one; one born in this one was never there."""
        self.db.execute(
            "DELETE FROM vectors WHERE label = ? AND label IN (SELECT label FROM passages WHERE born = ?)",
            (label, generation),
        )
        self.db.execute("DELETE FROM passages WHERE label = ? AND born = ?", (label, generation))
        self.db.execute("UPDATE passages SET died = ? WHERE label = ?", (generation, label))


def chunks(labels: Iterable[int]) -> Iterator[list[int]]:
    every = [int(label) for label in labels]
    for start in range(0, len(every), MANY):
        yield every[start : start + MANY]


def as_matrix(vectors: Iterable[bytes], dimension: int) -> Floats:
    """Stored vectors as `[n, D]`."""
    return np.frombuffer(b"".join(vectors), dtype="<f4").reshape(-1, dimension).astype(np.float32, copy=False)
