"""A sorted corpus in a folder: two NumPy arrays and a manifest.

Knows files. Does not know drafters or tokenizers. Arrays are mapped into memory, so opening costs nothing and memory is
the file system's.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.drafters.datastore.contexts import MAX_CONTEXT, Contexts, sort_places

FORMAT = 1
_TOKENS, _PLACES, _MANIFEST = "tokens.npy", "places.npy", "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What a store was made of. `separator` is the id that ends a text, outside the vocabulary."""

    num_tokens: int
    vocab_size: int
    separator: int
    tokenizer: str
    sha256: dict[str, str]
    max_context: int = MAX_CONTEXT
    format: int = FORMAT


def build(folder: Path, tokens: npt.NDArray[np.int64], vocab_size: int, tokenizer: str = "") -> Manifest:
    """Sort a corpus (texts ended by `vocab_size`) and write it; the folder appears when it is complete.

    Raises ValueError where the folder exists already.
    """
    if folder.exists():
        raise ValueError(f"{folder} exists already; choose another folder or remove it")
    half = folder.with_name(f"{folder.name}.building")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    np.save(half / _TOKENS, tokens.astype(np.uint16 if vocab_size < 1 << 16 else np.uint32))
    np.save(half / _PLACES, sort_places(tokens).astype(np.uint32 if len(tokens) < 1 << 32 else np.int64))
    sums = {name: _sha256(half / name) for name in (_TOKENS, _PLACES)}
    manifest = Manifest(len(tokens), vocab_size, vocab_size, tokenizer, sums)
    (half / _MANIFEST).write_text(json.dumps(asdict(manifest), indent=1) + "\n", encoding="utf-8")
    half.rename(folder)
    return manifest


def open_store(folder: Path, vocab_size: int) -> tuple[Contexts, Manifest]:
    """Map a store into memory.

    Raises ValueError for a folder that is no store, of another format or vocabulary, or not of its manifest's size.
    """
    manifest = read_manifest(folder)
    if manifest.vocab_size != vocab_size:
        raise ValueError(
            f"{folder} was built for a vocabulary of {manifest.vocab_size} tokens, the model has {vocab_size}; "
            "build it again with the model's tokenizer"
        )
    arrays = [np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in (_TOKENS, _PLACES)]
    tokens, places = arrays
    if len(tokens) != manifest.num_tokens or len(places) != max(manifest.num_tokens - 1, 0):
        raise ValueError(
            f"{folder} holds {len(tokens)} tokens and {len(places)} places, its manifest says {manifest.num_tokens}; "
            "build it again"
        )
    return Contexts(tokens, places), manifest


def read_manifest(folder: Path) -> Manifest:
    """Raises ValueError for a folder that is no store, or one of another format."""
    path = folder / _MANIFEST
    if not path.is_file():
        raise ValueError(f"{folder} is no datastore: it has no {_MANIFEST}; build one first")
    fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if fields.get("format") != FORMAT or fields.get("max_context") != MAX_CONTEXT:
        raise ValueError(
            f"{folder} has format {fields.get('format')!r}, this version reads {FORMAT}; build it again"
        )
    return Manifest(**fields)


def damaged(folder: Path) -> list[str]:
    """Names of the files whose checksum is not the manifest's. Reads all of them."""
    return [name for name, wanted in read_manifest(folder).sha256.items() if _sha256(folder / name) != wanted]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
