"""The manifest of a store: what its files must be. Renaming it into place is what commits a generation."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path

from retrieval.storage.sealed import broken, read_sealed, write_sealed

FILE = "manifest.json"
FORMAT = 1


@dataclass(frozen=True)
class SnapshotFile:
    """A FAISS file, its kind of index and the generation whose vectors it holds."""

    file: str
    kind: str
    generation: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """One committed generation. `checksum` of the passages is the XOR of their digests, so it grows with them."""

    store: str
    index: str
    metric: str
    embedding: str | None = None
    dimension: int | None = None
    generation: int = 0
    count: int = 0
    checksum: str = "0" * 32
    snapshot: SnapshotFile | None = None
    format: int = FORMAT


def write_manifest(folder: Path, manifest: Manifest, durable: bool = True) -> None:
    write_sealed(folder / FILE, asdict(manifest), durable)


def read_manifest(folder: Path) -> Manifest:
    """The committed manifest; ValueError as `read_sealed`."""
    content = read_sealed(folder / FILE, FORMAT)
    if set(content) != {field.name for field in fields(Manifest)}:
        raise broken(folder / FILE, "describes something other than a vector store")
    snapshot = content.pop("snapshot")
    return Manifest(**content, snapshot=SnapshotFile(**snapshot) if snapshot else None)
