"""Passages with vectors in a folder: one writer, many readers, threads and processes; nothing of LangChain.

How a change is written, so that a crash at any instant leaves the old generation or the new one:
1. its rows go to `passages.sqlite`, marked with the coming generation, which no reader looks at;
2. `manifest.json` of that generation is renamed into place: from here on it is the truth;
3. now and then FAISS's index is written to a new file, and a manifest that names it is renamed into place.
   Loading takes the newest such file and adds the rows that came after it.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import filelock
import numpy as np

from retrieval.storage.change import Change
from retrieval.storage.locks import ReadWriteLock
from retrieval.storage.manifest import FILE, Manifest, SnapshotFile, read_manifest, write_manifest
from retrieval.storage.passages import PassageFile
from retrieval.storage.sealed import broken, file_sha256, flush_file
from retrieval.storage.vectors import IndexConfig, VectorIndex
from retrieval.storage.view import ATTEMPTS, RowsGone, View, load, next_step

T = TypeVar("T")
SMALL = 2_000  # passages; up to here the index file is written with every change
logger = logging.getLogger(__name__)


class Collection:
    """Open or create the store in `folder`; `fresh` describes it where it is new."""

    def __init__(
        self, folder: Path, fresh: Manifest, config: IndexConfig, lock_timeout: float, durable: bool
    ) -> None:
        self.folder, self.config, self.durable = folder, config, durable
        self._threads = threading.RLock()  # one writing thread
        self._lock = ReadWriteLock()
        self._processes = filelock.FileLock(folder / "write.lock", timeout=lock_timeout)
        self._closed = False
        self._change: Change | None = None
        self._unsaved = 0  # rows changed since the index file was written
        if not (folder / FILE).exists():
            self._create(fresh)
        self._view = load(folder, config)

    def _create(self, fresh: Manifest) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._exclusive():
            if (self.folder / FILE).exists():
                return
            for left in [*self.folder.glob("passages.sqlite"), *self.folder.glob("vectors-*.faiss")]:
                raise broken(left, f"is here without a {FILE}")
            write_manifest(self.folder, replace(fresh, store=str(uuid.uuid4())), self.durable)

    @property
    def manifest(self) -> Manifest:
        return self._view.manifest

    # Reading

    def answer(self, ask: Callable[[View], T]) -> T:
        """`ask` of one consistent generation; where that one is too old to be read on, of the newest."""
        for _ in range(ATTEMPTS):
            try:
                with self._lock.reading():
                    return ask(self._opened())
            except RowsGone:
                self.reload()
        raise TimeoutError(f"{self.folder} changes faster than it can be read; try again later")

    def _opened(self) -> View:
        if self._closed:
            raise ValueError(f"the store in {self.folder} was closed; open it anew")
        return self._view

    def is_stale(self) -> bool:
        """Whether another process has committed a newer generation."""
        return read_manifest(self.folder).generation != self.manifest.generation

    def reload(self) -> bool:
        """Take up the newest generation; False where this was it."""
        with self._threads:
            newest = read_manifest(self.folder)
            if newest.generation == self.manifest.generation and newest.store == self.manifest.store:
                return False
            step = next_step(self._view, newest)
            if step is None:
                self._swap(load(self.folder, self.config))
            else:
                with self._lock.writing():
                    self._view.manifest = newest
                    self._view.take_in(*step, self.config)
            return True

    def _swap(self, view: View) -> None:
        with self._lock.writing():
            old, self._view = self._view, view
        if old.passages is not None and old.passages is not view.passages:
            old.passages.close()

    # Writing

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        try:
            held = self._processes.acquire()
        except filelock.Timeout as error:
            raise TimeoutError(
                f"{self.folder} is being written by another thread or process; wait for it, or stop it"
            ) from error
        except PermissionError as error:
            raise PermissionError(
                f"{self.folder} cannot be written; change its rights, or copy it to a folder of your own"
            ) from error
        with held:
            yield

    @contextmanager
    def change(self) -> Iterator[Change]:
        """The next generation: committed at the end of the outermost block, dropped where one raises."""
        with self._threads:
            self._opened()
            if self._change is not None:
                yield self._change
                return
            with self._exclusive():
                self.reload()
                yield from self._changing()

    def _changing(self) -> Iterator[Change]:
        new = self.manifest.generation == 0
        passages = PassageFile(self.folder, self.manifest.store, create=new, durable=self.durable)
        self._change = change = Change(passages, self.manifest)
        complete = False
        try:
            change.begin()
            yield change
            complete = True
        finally:
            self._change = None
            if not complete:
                change.abandon()
            elif change.rows:
                write_manifest(self.folder, change.finish(), self.durable)
            else:
                passages.db.execute("ROLLBACK")
            passages.close()
        if change.rows:
            self._unsaved += change.rows
            self.reload()
            self._settle()

    def _settle(self) -> None:
        """After a commit: the right kind of index, and its file when enough has changed."""
        index, count = self._view.index, self.manifest.count
        if index is None:
            return
        kind, why = self.config.choose(self.manifest.index, count)
        if (index.kind != kind and count) or index.too_many_tombstones():
            logger.info("%s: index over %d passages: %s", self.folder, count, why)
            self.rebuild(kind)
        elif count <= SMALL or self._unsaved * (5 if index.exact else 50) > count:
            self.save()

    def rebuild(self, kind: str) -> None:
        """Build the index anew from the stored vectors; searches go on with the old one meanwhile."""
        with self._threads, self._exclusive():
            view = self._view
            assert view.index is not None
            assert view.manifest.dimension is not None
            labels = np.fromiter(view.id_of, dtype=np.int64)
            matrix = self.answer(lambda view: view.stored_vectors(labels.tolist()))
            index = VectorIndex(kind, view.metric, view.manifest.dimension, self.config)
            if kind == "ivfpq":
                index.train(matrix)
            index.add(labels, matrix)
            self._swap(replace(view, index=index))
            self.save()

    def save(self) -> None:
        """Write the index to a file of its own, so that loading has nothing to add to it."""
        with self._threads, self._exclusive():
            index, manifest = self._view.index, self.manifest
            if index is None or manifest.generation != read_manifest(self.folder).generation:
                return
            path = self._unused()
            index.write(path)
            if self.durable:
                flush_file(path)
            snapshot = SnapshotFile(
                path.name, index.kind, manifest.generation, path.stat().st_size, file_sha256(path)
            )
            manifest = replace(manifest, snapshot=snapshot)
            write_manifest(self.folder, manifest, self.durable)
            self._view.manifest = manifest
            self._unsaved = 0
            for other in self.folder.glob("vectors-*.faiss"):
                if other != path:
                    other.unlink()

    def _unused(self) -> Path:
        """A name that no manifest has ever named for other content."""
        stem, tail = f"vectors-{self.manifest.generation}", 0
        while (path := self.folder / (f"{stem}-{tail}.faiss" if tail else f"{stem}.faiss")).exists():
            tail += 1
        return path

    def close(self) -> None:
        """Let go of the files; the store must not be used afterwards."""
        with self._threads, self._lock.writing():
            self._closed = True
            if self._view.passages is not None:
                self._view.passages.close()
