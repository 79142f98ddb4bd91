"""The next generation of a store while it is written: rows come and go in SQLite, seen by nobody yet."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from retrieval.storage.manifest import Manifest
from retrieval.storage.passages import PassageFile

ROWS_PER_TRANSACTION = 5_000  # readers of other processes wait for one at most


@dataclass
class Change:
    """What one writer, holding the lock, adds to and removes from a committed generation."""

    passages: PassageFile
    base: Manifest
    count: int = field(init=False)
    checksum: int = field(init=False)
    dimension: int | None = field(init=False)
    embedding: str | None = field(init=False)
    rows: int = 0

    def __post_init__(self) -> None:
        self.count, self.checksum = self.base.count, int(self.base.checksum, 16)
        self.dimension, self.embedding = self.base.dimension, self.base.embedding

    @property
    def generation(self) -> int:
        return self.base.generation + 1

    def begin(self) -> None:
        self.passages.discard_newer(self.base.generation)
        self.passages.purge(self.base.generation)
        self.passages.db.execute("BEGIN IMMEDIATE")

    def fit(self, dimension: int, embedding: str | None) -> None:
        """Vectors of this many dimensions by this model are coming; the first of a store settle both."""
        if self.dimension is not None and dimension != self.dimension:
            raise ValueError(
                f"vectors have {dimension} dimensions, the store {self.dimension}; use its embedding"
            )
        self.dimension = dimension
        self.embedding = self.embedding or embedding

    def put(self, passage_id: str, text: str, metadata: str, vector: bytes) -> None:
        """Add a passage or replace the one of that id; the very same one stays as it is."""
        standing = self.passages.standing(passage_id)
        if standing and standing[2:] == (metadata, text, vector):
            return
        if standing:
            self._bury(standing.label, standing.digest())
        row = self.passages.insert(passage_id, metadata, text, vector, self.generation)
        self.checksum ^= row.digest()
        self.count += 1
        self._touched()

    def has(self, passage_id: str, text: str, metadata: str) -> bool:
        """Whether this very passage stands, what this change did included."""
        standing = self.passages.standing(passage_id)
        return standing is not None and standing[2:4] == (metadata, text)

    def remove(self, passage_id: str) -> bool:
        """Remove a passage; False where there is none of that id."""
        standing = self.passages.standing(passage_id)
        if standing:
            self._bury(standing.label, standing.digest())
            self._touched()
        return standing is not None

    def _bury(self, label: int, digest: int) -> None:
        self.passages.bury(label, self.generation)
        self.checksum ^= digest
        self.count -= 1

    def _touched(self) -> None:
        self.rows += 1
        if self.rows % ROWS_PER_TRANSACTION == 0:
            self.passages.db.execute("COMMIT")
            self.passages.db.execute("BEGIN IMMEDIATE")

    def finish(self) -> Manifest:
        """Everything is in SQLite; the manifest that would make it the truth."""
        self.passages.db.execute("COMMIT")
        return replace(
            self.base,
            generation=self.generation,
            count=self.count,
            checksum=f"{self.checksum:032x}",
            dimension=self.dimension,
            embedding=self.embedding,
        )

    def abandon(self) -> None:
        if self.passages.db.in_transaction:
            self.passages.db.execute("ROLLBACK")
        self.passages.discard_newer(self.base.generation)
