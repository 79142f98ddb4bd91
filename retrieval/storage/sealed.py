"""Small JSON files that say when somebody changed them, put in place atomically."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any


def write_sealed(path: Path, content: dict[str, Any], durable: bool = True) -> None:
    """Put the file in place; after a crash either the old one or this one is there."""
    sealed = json.dumps({**content, "seal": _seal(content)}, indent=1).encode()
    replace_durably(path, sealed, durable)


def read_sealed(path: Path, format: int) -> dict[str, Any]:
    """The content of a file of this format.

    Raises:
        ValueError: not JSON, another format or changed since it was written; names the file and the remedy.
    """
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise broken(path, f"is not JSON ({error})") from error
    if not isinstance(content, dict) or "format" not in content:
        raise broken(path, "is not a manifest of this library")
    if content["format"] != format:
        raise ValueError(f"{path} has format {content['format']!r}, this version reads {format}; index anew")
    if content.pop("seal", None) != _seal(content):
        raise broken(path, "was changed since it was written")
    return content


def _seal(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def broken(path: Path, what: str) -> ValueError:
    """The one error for a file that cannot be trusted."""
    return ValueError(f"{path} {what}; restore the folder from a copy, or delete it and index anew")


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_durably(path: Path, content: bytes, durable: bool = True) -> None:
    """Write beside and rename over; `durable` flushes both to the disk, so that it outlives a power cut too."""
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(content)
    if durable:
        flush_file(beside)
    beside.replace(path)
    if durable:
        flush_folder(path.parent)


def flush_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Make renames in a folder durable (where the system can open folders; Windows cannot)."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
