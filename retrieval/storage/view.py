"""One generation of a store in memory: its index and its ids, loaded from a folder and brought up to date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import xor
from pathlib import Path

import numpy as np

from retrieval.storage.manifest import Manifest, read_manifest
from retrieval.storage.metric import Floats, Metric
from retrieval.storage.passages import PassageFile, Row, as_matrix
from retrieval.storage.sealed import broken, file_sha256
from retrieval.storage.vectors import IndexConfig, VectorIndex

ATTEMPTS = 20


@dataclass
class View:
    """What a search needs. `id_of` lists the labels in ascending order: the order in which passages came."""

    manifest: Manifest
    passages: PassageFile | None = None
    index: VectorIndex | None = None
    id_of: dict[int, str] = field(default_factory=dict)
    label_of: dict[str, int] = field(default_factory=dict)

    @property
    def metric(self) -> Metric:
        return Metric(self.manifest.metric)

    def take_in(self, born: Sequence[Row], died: Sequence[Row], config: IndexConfig) -> None:
        """Apply a change to the index and the ids."""
        for row in died:
            del self.id_of[row.label], self.label_of[row.id]
        if died:
            assert self.index is not None
            self.index.remove(row.label for row in died)
        if not born:
            return
        assert self.manifest.dimension is not None
        if self.index is None:
            self.index = VectorIndex("flat", self.metric, self.manifest.dimension, config)
        labels = np.array([row.label for row in born], dtype=np.int64)
        self.index.add(labels, as_matrix((row.vector for row in born), self.manifest.dimension))
        self.id_of.update((row.label, row.id) for row in born)
        self.label_of.update((row.id, row.label) for row in born)

    def texts(self, labels: Sequence[int]) -> list[tuple[str, str, str]]:
        """`(id, text, metadata)` of labels of this view, in their order."""
        if not labels:
            return []
        assert self.passages is not None
        rows = self.passages.texts(labels)
        if missing := [label for label in labels if label not in rows]:
            raise RowsGone(missing[0])
        return [rows[label] for label in labels]

    def stored_vectors(self, labels: Iterable[int]) -> Floats:
        """Vectors `[n, D]` as they were added, from the index or, where it compresses, from the file."""
        wanted = np.fromiter(labels, dtype=np.int64)
        if self.index is None or not len(wanted):
            return np.empty((0, self.manifest.dimension or 0), dtype=np.float32)
        if self.index.keeps_vectors:
            return self.index.vectors(wanted)
        assert self.passages is not None
        rows = self.passages.vectors(wanted.tolist())
        if missing := [label for label in wanted.tolist() if label not in rows]:
            raise RowsGone(missing[0])
        return as_matrix((rows[label] for label in wanted.tolist()), self.index.dimension)


class RowsGone(LookupError):
    """Rows of this view were purged by a writer that is two generations ahead or more."""


def load(folder: Path, config: IndexConfig) -> View:
    """The committed generation, every file checked against its manifest.

    Raises:
        ValueError: a file is missing, cut short, changed or of another store; names it and the remedy.
    """
    for _ in range(ATTEMPTS):
        manifest = read_manifest(folder)
        try:
            return _load(folder, manifest, config)
        except (ValueError, FileNotFoundError):
            if read_manifest(folder) == manifest:  # else a writer moved on while this was reading
                raise
    raise TimeoutError(f"{folder} changes faster than it can be read; try again when its writer has finished")


def _load(folder: Path, manifest: Manifest, config: IndexConfig) -> View:
    view = View(manifest)
    if not manifest.generation:
        return view
    view.passages = PassageFile(folder, manifest.store)
    view.passages.check_structure()
    view.index = _snapshot(folder, manifest, config)
    known = set(view.index.labels().tolist()) if view.index else set()
    checksum, late = 0, []
    for row in view.passages.alive(manifest.generation):
        checksum ^= row.digest()
        if row.label in known:
            view.id_of[row.label], view.label_of[row.id] = row.id, row.label
        else:
            late.append(row)
    count = len(view.id_of) + len(late)
    unique = len(view.label_of.keys() | {row.id for row in late})
    if not count == unique == manifest.count or f"{checksum:032x}" != manifest.checksum:
        raise broken(view.passages.path, "does not hold what its manifest says")
    gone = known - view.id_of.keys()
    view.take_in(late, (), config)
    view.id_of = dict(sorted(view.id_of.items()))
    if view.index:
        view.index.remove(gone)
    return view


def _snapshot(folder: Path, manifest: Manifest, config: IndexConfig) -> VectorIndex | None:
    said = manifest.snapshot
    if said is None:
        return None
    path = folder / said.file
    if not path.exists():
        raise broken(path, "is missing")
    if path.stat().st_size != said.bytes or file_sha256(path) != said.sha256:
        raise broken(path, "is not the file that the manifest describes")
    try:
        index = VectorIndex.read(path, said.kind, Metric(manifest.metric), config)
    except RuntimeError as error:
        raise broken(path, f"cannot be read by FAISS ({error})") from error
    if index.dimension != manifest.dimension:
        raise broken(path, f"has {index.dimension} dimensions, its manifest {manifest.dimension}")
    return index


def next_step(view: View, newest: Manifest) -> tuple[list[Row], list[Row]] | None:
    """Rows born and died between a view and the generation after it; None where it has to be loaded anew."""
    old, kind = view.manifest, view.index.kind if view.index else None
    moved_on = newest.generation != old.generation + 1 or newest.store != old.store
    if moved_on or view.passages is None or (newest.snapshot and newest.snapshot.kind != kind):
        return None
    born, died = view.passages.step(newest.generation)
    checksum = reduce(xor, (row.digest() for row in [*born, *died]), int(old.checksum, 16))
    right = f"{checksum:032x}" == newest.checksum and old.count + len(born) - len(died) == newest.count
    return (born, died) if right else None
