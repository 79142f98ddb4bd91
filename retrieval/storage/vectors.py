"""A FAISS index over labelled vectors: which kind, adding, removing, candidates; knows no texts and no ids.

`flat` compares with every vector: exact. `hnsw` walks a graph (Malkov and Yashunin 2016): fast, approximate, most
memory; it cannot forget, so removed labels become tombstones. `ivfpq` probes clusters of compressed vectors
(Jégou et al. 2011): least memory, approximate; it must be trained first. n vectors, Q queries, D dimensions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from retrieval.storage import product
from retrieval.storage.metric import Floats, Metric

Labels = npt.NDArray[np.int64]
faiss: Any = import_module("faiss")  # its type stubs lack half of what it has
KINDS = ("flat", "hnsw", "ivfpq")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class IndexConfig:
    """FAISS's parameters by their usual names, and when this library changes or rebuilds an index.

    `auto` is flat up to `flat_until` passages, HNSW up to `hnsw_until`, IVF-PQ beyond. `ivfpq` starts flat and
    is trained once `train_at` passages are there. Tombstones past `tombstone_share` of an index rebuild it.
    """

    m: int = 32
    ef_construction: int = 80
    ef_search: int = 64
    nprobe: int = 16
    code_bytes: int = 64
    train_at: int = 10_000
    flat_until: int = 500_000
    hnsw_until: int = 5_000_000
    tombstone_share: float = 0.2

    def choose(self, asked: str, count: int) -> tuple[str, str]:
        """The kind for `count` passages and the choice in words."""
        if asked == "ivfpq" and count < self.train_at:
            return "flat", f"flat (exact) until {self.train_at:,} passages can train ivfpq"
        if asked != "auto":
            return asked, f"{asked}, as asked"
        if count <= self.flat_until:
            return "flat", f"flat (exact), chosen for up to {self.flat_until:,} passages"
        if count <= self.hnsw_until:
            return "hnsw", f"hnsw (approximate), chosen above {self.flat_until:,} passages"
        return "ivfpq", f"ivfpq (approximate), chosen above {self.hnsw_until:,} passages"


class VectorIndex:
    """Vectors by label. Searching from several threads is safe; changing needs them out of the way."""

    def __init__(self, kind: str, metric: Metric, dimension: int, config: IndexConfig) -> None:
        assert kind in KINDS, kind
        self.kind, self.metric, self.dimension, self.config = kind, metric, dimension, config
        self.dead: set[int] = set()
        self.longest = 1.0 if metric.name == "cosine" else 0.0
        self.faiss = self._flat() if kind != "hnsw" else self._hnsw()
        self._squares: Floats | None = None

    @property
    def exact(self) -> bool:
        return self.kind == "flat"

    @property
    def keeps_vectors(self) -> bool:
        """Whether vectors can be read back as they were added."""
        return self.kind != "ivfpq"

    def __len__(self) -> int:
        return int(self.faiss.ntotal) - len(self.dead)

    def _faiss_metric(self) -> int:
        return int(faiss.METRIC_INNER_PRODUCT if self.metric.higher_is_nearer else faiss.METRIC_L2)

    def _flat(self) -> Any:
        return faiss.IndexIDMap2(faiss.IndexFlat(self.dimension, self._faiss_metric()))

    def _hnsw(self) -> Any:
        graph = faiss.IndexHNSWFlat(self.dimension, self.config.m, self._faiss_metric())
        graph.hnsw.efConstruction = self.config.ef_construction
        return faiss.IndexIDMap2(graph)

    def train(self, matrix: Floats) -> None:
        """Make this an IVF-PQ over clusters and codes learned from `matrix [n, D]`; the index must be empty."""
        assert self.kind == "ivfpq", self.kind
        assert not self.faiss.ntotal
        lists = max(
            1, min(int(4 * len(matrix) ** 0.5), len(matrix) // 39)
        )  # FAISS wants 39 points per centroid
        size = max(s for s in range(1, self.config.code_bytes + 1) if self.dimension % s == 0)
        bits = 8 if len(matrix) >= 39 * 256 else 4
        coarse = faiss.IndexFlat(self.dimension, self._faiss_metric())
        index = faiss.IndexIVFPQ(coarse, self.dimension, lists, size, bits, self._faiss_metric())
        index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
        index.train(matrix)
        self.faiss = index

    def add(self, labels: Labels, matrix: Floats) -> None:
        """Add `matrix [n, D]` (prepared by the metric) under new labels."""
        if len(labels):
            self.faiss.add_with_ids(matrix, labels)
            lengths = np.einsum("nd,nd->n", matrix, matrix)
            self.longest = max(self.longest, float(np.sqrt(lengths.max())))
            self._squares = None

    def remove(self, labels: Iterable[int]) -> None:
        gone = np.fromiter(labels, dtype=np.int64)
        if self.kind == "hnsw":
            self.dead.update(gone.tolist())
        elif len(gone):
            self.faiss.remove_ids(gone)
            self._squares = None

    def too_many_tombstones(self) -> bool:
        return len(self.dead) > self.config.tombstone_share * self.faiss.ntotal

    def labels(self) -> Labels:
        """Every label in the index, tombstones included, `[n]`."""
        if self.kind != "ivfpq":
            return np.asarray(faiss.vector_to_array(self.faiss.id_map), dtype=np.int64)
        lists = self.faiss.invlists
        parts = [
            faiss.rev_swig_ptr(lists.get_ids(i), lists.list_size(i)).copy()
            for i in range(lists.nlist)
            if lists.list_size(i)
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def vectors(self, labels: Labels) -> Floats:
        """Stored vectors `[n, D]` of labels that are in the index."""
        assert self.keeps_vectors
        return np.asarray(self.faiss.reconstruct_batch(labels), dtype=np.float32).reshape(-1, self.dimension)

    def candidates(self, queries: Floats, k: int, allowed: Labels | None = None) -> list[Labels]:
        """Per query the labels, among the allowed ones, of all that may be among its k nearest if the index is exact,
        else of about the k nearest, fewer where there are not so many.

        What an approximate index finds for a query does not hang on the batch, but the best of it on k.
        """
        if self.exact:
            return self._multiplied(queries, k, allowed)
        keep = self._selector(allowed)
        if self.kind == "ivfpq":
            found = self._probed(queries, k, keep)
        else:
            options = faiss.SearchParametersHNSW(sel=keep, efSearch=max(self.config.ef_search, k))
            found = self.faiss.search(queries, k, params=options)[1]
        return [labels[labels >= 0] for labels in found]

    def _multiplied(self, queries: Floats, k: int, allowed: Labels | None) -> list[Labels]:
        """A flat index's candidates; FAISS's own search is slower, for one query too where memory is shared."""
        matrix, squares = self._matrix(), None
        if not self.metric.higher_is_nearer:
            if self._squares is None:
                self._squares = np.einsum("nd,nd->n", matrix, matrix)
            squares = self._squares
        labels = faiss.rev_swig_ptr(self.faiss.id_map.data(), len(matrix))
        among = None if allowed is None else np.flatnonzero(np.isin(labels, allowed))
        margins = np.array([2 * self.metric.rounding(query, self.longest) for query in queries], np.float32)
        return [labels[rows] for rows in product.nearest(queries, matrix, squares, k, margins, among)]

    def _matrix(self) -> Floats:
        """The vectors [n, D] of a flat index where FAISS keeps them, not copied."""
        flat = faiss.downcast_index(self.faiss.index)
        vectors: Floats = faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d).reshape(flat.ntotal, flat.d)
        return vectors

    def _probed(self, queries: Floats, k: int, keep: Any) -> Labels:
        """IVF-PQ's candidates [Q, k], -1 where there are fewer.

        Clusters are chosen for one query at a time: rounding may choose others in a batch.
        """
        options = faiss.SearchParametersIVF(sel=keep, nprobe=min(self.config.nprobe, self.faiss.nlist))
        chosen = [self.faiss.quantizer.search(query[None], options.nprobe) for query in queries]
        distances, clusters = (np.concatenate(part) for part in zip(*chosen, strict=True))
        scores = np.empty((len(queries), k), dtype=np.float32)
        labels = np.empty((len(queries), k), dtype=np.int64)
        queries = np.ascontiguousarray(queries)
        pointers = [faiss.swig_ptr(array) for array in (clusters, distances, scores, labels)]
        # FAISS's Python layer over this takes no options.
        self.faiss.search_preassigned_c(len(queries), faiss.swig_ptr(queries), k, *pointers, False, options)
        return labels

    def _selector(self, allowed: Labels | None) -> Any:
        if allowed is not None:
            return faiss.IDSelectorBatch(allowed)
        if not self.dead:
            return None
        dead = faiss.IDSelectorBatch(np.fromiter(self.dead, dtype=np.int64))
        keep = faiss.IDSelectorNot(dead)
        keep.inner = dead  # FAISS holds a bare pointer to it
        return keep

    def write(self, path: Path) -> None:
        faiss.write_index(self.faiss, str(path))

    @classmethod
    def read(cls, path: Path, kind: str, metric: Metric, config: IndexConfig) -> VectorIndex:
        """An index from a file whose checksum was found right; RuntimeError where FAISS cannot read it."""
        loaded = faiss.read_index(str(path))
        index = cls(kind, metric, loaded.d, config)
        index.faiss = loaded
        if kind == "flat" and metric.name != "cosine" and loaded.ntotal:
            rows = index._matrix()
            index.longest = float(np.sqrt(np.einsum("nd,nd->n", rows, rows).max()))
        return index
