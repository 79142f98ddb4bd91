"""Vectors by (model, text), in one SQLite file, so that nothing is embedded twice.

Knows hashes and float32 blobs. Does not know who computes a vector or what it is for. Threads and processes may
share a file.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    model TEXT NOT NULL, text BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (model, text)
) WITHOUT ROWID
"""
_BLOB_TYPE = np.dtype("<f4")
_VARIABLES = 500  # per statement; SQLite's oldest limit is 999
_WAIT_SECONDS = 60.0


class EmbeddingCache:
    """A table of vectors. `path` is created with its folder; None keeps the table in memory.

    A file that can only be read (a shared index) is read, and what is new is not kept.
    Raises ValueError where the file is no SQLite database, or a damaged one.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._lock = threading.Lock()
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(
            ":memory:" if self.path is None else self.path, timeout=_WAIT_SECONDS, check_same_thread=False
        )
        with self._statements() as connection:
            connection.execute(_SCHEMA)

    def get(self, model: str, texts: Sequence[str], dimension: int) -> dict[str, np.ndarray]:
        """The vectors [D] of those texts that are here; a blob of another length counts as absent."""
        keys = {text_key(text): text for text in texts}
        wanted = list(keys)
        found: dict[str, np.ndarray] = {}
        with self._statements() as connection:
            for start in range(0, len(wanted), _VARIABLES):
                some = wanted[start : start + _VARIABLES]
                rows = connection.execute(
                    f"SELECT text, vector FROM vectors WHERE model = ? AND text IN ({','.join('?' * len(some))})",
                    (model, *some),
                )
                for key, blob in rows:
                    if len(blob) == dimension * _BLOB_TYPE.itemsize:
                        found[keys[key]] = np.frombuffer(blob, dtype=_BLOB_TYPE)
        return found

    def put(self, model: str, texts: Sequence[str], vectors: np.ndarray) -> None:
        """Keeps vectors [N, D] of N texts."""
        rows = [
            (model, text_key(text), vector.astype(_BLOB_TYPE).tobytes())
            for text, vector in zip(texts, vectors, strict=True)
        ]
        try:
            with self._statements() as connection:
                connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
        except sqlite3.OperationalError as error:
            if "readonly" not in str(error):
                raise

    def __len__(self) -> int:
        with self._statements() as connection:
            count: int = connection.execute("SELECT COUNT(*) FROM vectors").fetchone()[0]
        return count

    def close(self) -> None:
        """Closes the file; the cache cannot be used any more."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _statements(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread and one transaction."""
        try:
            with self._lock, self._connection:
                yield self._connection
        except sqlite3.OperationalError:
            raise  # a full disk, a lock that is not given up: the file itself may be sound
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"{self.path} is no usable cache of embeddings ({error}); delete it, it is filled again"
            ) from error


def text_key(text: str) -> bytes:
    """SHA-256 of the text, 32 bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
