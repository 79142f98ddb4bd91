"""The manifest of a store: what its files must be. Renaming it into place is what commits a generation."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

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


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put the manifest in place atomically; after a crash either the old one or this one is there."""
    content = asdict(manifest)
    replace_durably(folder / FILE, json.dumps({**content, "self": _seal(content)}, indent=1).encode())


def read_manifest(folder: Path) -> Manifest:
    """The committed manifest.

    Raises:
        ValueError: not JSON, another format, fields missing or changed by hand; names the file and the remedy.
    """
    path = folder / FILE
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise broken(path, f"is not JSON ({error})") from error
    if not isinstance(content, dict) or "format" not in content:
        raise broken(path, "is not a manifest of this library")
    if content["format"] != FORMAT:
        raise ValueError(f"{path} has format {content['format']!r}, this version reads {FORMAT}; index anew")
    seal = content.pop("self", None)
    if seal != _seal(content) or set(content) != {field.name for field in fields(Manifest)}:
        raise broken(path, "was changed since it was written")
    snapshot = content.pop("snapshot")
    return Manifest(**content, snapshot=SnapshotFile(**snapshot) if snapshot else None)


def broken(path: Path, what: str) -> ValueError:
    """The one error for a file that cannot be trusted."""
    return ValueError(f"{path} {what}; restore the folder from a copy, or delete it and index anew")


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_durably(path: Path, content: bytes) -> None:
    """Write beside, flush to the disk, rename over, flush the folder."""
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    flush_folder(path.parent)


def flush_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Make renames in a folder durable (where the system can open folders; Windows cannot)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _seal(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
