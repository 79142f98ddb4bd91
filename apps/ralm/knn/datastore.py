"""Pairs of a context's vector and the token that followed it, on disk, with exact or approximate nearest search.

Knows vectors and token ids. Does not know models (`building` does). Keys are a memory-mapped float16 file, tokens a
memory-mapped int32 one; HNSW and IVF-PQ have an index file beside them, an exact search is made from the keys. A
search's answer depends on its query alone, not on the batch, and up to `DEPTH` the k nearest are the first of the
k + 1 nearest: an approximate index, which finds nearer ones where it looks for more, looks for `DEPTH` at least.
Q queries, n entries, D dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import numpy as np
import numpy.typing as npt

from retrieval.storage.metric import Floats, Metric
from retrieval.storage.sealed import broken, read_sealed, write_sealed
from retrieval.storage.vectors import KINDS, IndexConfig, Labels, VectorIndex

MANIFEST, KEYS, TOKENS, INDEX = "datastore.json", "keys.npy", "tokens.npy", "index.faiss"
FORMAT = 1
_METRIC = Metric("l2")
_BLOCK = 65_536
_SPARE = 16
#: Neighbours that an approximate index is asked for at least.
DEPTH = 64


@dataclass(frozen=True)
class Neighbours:
    """The nearest entries of one query, nearest first: `labels` [k], `tokens` [k] and squared `distances` [k]."""

    labels: Labels
    tokens: npt.NDArray[np.int32]
    distances: Floats

    def first(self, k: int) -> Neighbours:
        """The k nearest of them."""
        return Neighbours(self.labels[:k], self.tokens[:k], self.distances[:k])


class Datastore:
    """Opens a datastore in a folder. Raises ValueError for a folder without one, or with a damaged one."""

    def __init__(self, folder: str | Path, config: IndexConfig | None = None) -> None:
        self.folder = Path(folder)
        if not (self.folder / MANIFEST).exists():
            raise ValueError(f"{self.folder} holds no datastore; build one first")
        manifest = read_sealed(self.folder / MANIFEST, FORMAT)
        self.kind = str(manifest["index"])
        self.keys = _mapped(self.folder / KEYS)
        self.tokens = _mapped(self.folder / TOKENS)
        if self.keys.shape != (manifest["count"], manifest["dimension"]) or len(self.tokens) != len(
            self.keys
        ):
            raise broken(self.folder / KEYS, "does not have the shape that the manifest describes")
        config = config or IndexConfig()
        if self.kind == "flat":
            self._index = _filled("flat", self.keys, config)
        else:
            self._index = VectorIndex.read(self.folder / INDEX, self.kind, _METRIC, config)

    @classmethod
    def write(
        cls,
        folder: str | Path,
        blocks: Iterable[tuple[npt.NDArray[np.floating], npt.NDArray[np.integer]]],
        count: int,
        *,
        index: str = "flat",
        config: IndexConfig | None = None,
    ) -> Self:
        """Write `count` entries, given as blocks of (keys [m, D], tokens [m]), and open what was written.

        What lies there already is replaced at the end, file by file: whoever reads it goes on with what was read. The
        manifest comes last: a folder without one is no datastore, whatever else lies there.
        Raises ValueError for an unknown index, no entries, too few to train it, or other than `count` of them.
        """
        if index not in KINDS:
            raise ValueError(f"index {index!r} is unknown; choose one of {', '.join(KINDS)}")
        config = config or IndexConfig()
        if index == "ivfpq" and count < config.train_at:
            raise ValueError(
                f"{count} entries cannot train ivfpq, which needs {config.train_at}; use flat or hnsw"
            )
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="unfinished-", dir=folder) as unfinished:
            keys = _write_entries(Path(unfinished), blocks, count)
            if index != "flat":
                _filled(index, keys, config).write(Path(unfinished) / INDEX)
            (folder / MANIFEST).unlink(missing_ok=True)
            for file in Path(unfinished).iterdir():
                file.replace(folder / file.name)
        about = {"index": index, "count": count, "dimension": int(keys.shape[1])}
        write_sealed(folder / MANIFEST, {"format": FORMAT, **about})
        return cls(folder, config)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.keys.shape[1])

    def search(self, queries: Floats, k: int) -> list[Neighbours]:
        """The k nearest entries of each row of `queries` [Q, D], equal distances in the order of the entries.

        Raises ValueError for queries of another dimension.
        """
        queries = _METRIC.prepared(queries, self.dimension)
        fetch = min(len(self), k if self._index.exact else max(k, DEPTH) + _SPARE)
        candidates = self._index.candidates(queries, fetch)
        return [self.neighbours(query, labels, k) for query, labels in zip(queries, candidates, strict=True)]

    def neighbours(self, query: Floats, labels: Labels, k: int) -> Neighbours:
        """The k nearest of these entries."""
        distances = _METRIC.scores(query, self.keys[labels].astype(np.float32))
        order = np.lexsort((labels, distances))[:k]
        return Neighbours(labels[order], self.tokens[labels[order]], distances[order])


def _mapped(path: Path) -> np.ndarray:
    try:
        return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise broken(path, "is missing, or no file of numbers") from error


def _write_entries(
    folder: Path, blocks: Iterable[tuple[npt.NDArray[np.floating], npt.NDArray[np.integer]]], count: int
) -> np.ndarray:
    keys: np.memmap | None = None
    tokens = np.lib.format.open_memmap(folder / TOKENS, "w+", np.int32, (count,))
    start = 0
    for some_keys, some_tokens in blocks:
        end = start + len(some_tokens)
        if end > count:
            break
        if keys is None:
            keys = np.lib.format.open_memmap(folder / KEYS, "w+", np.float16, (count, some_keys.shape[1]))
        keys[start:end], tokens[start:end] = some_keys, some_tokens
        start = end
    if keys is None or start != count:
        raise ValueError(
            f"the blocks hold other than the {count} entries that were announced; count them again"
        )
    keys.flush()
    tokens.flush()
    return keys


def _filled(kind: str, keys: np.ndarray, config: IndexConfig) -> VectorIndex:
    index = VectorIndex(kind, _METRIC, keys.shape[1], config)
    if kind == "ivfpq":
        index.train(_sample(keys))
    for start in range(0, len(keys), _BLOCK):
        block = np.ascontiguousarray(keys[start : start + _BLOCK], dtype=np.float32)
        index.add(np.arange(start, start + len(block), dtype=np.int64), block)
    return index


def _sample(keys: np.ndarray, most: int = 200_000) -> Floats:
    """Evenly spread keys to train on."""
    places = np.unique(np.linspace(0, len(keys) - 1, min(most, len(keys))).astype(np.int64))
    return np.ascontiguousarray(keys[places], dtype=np.float32)
