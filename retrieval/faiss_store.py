"""A LangChain vector store in one folder: FAISS for vectors, SQLite for texts and metadata.

Knows passages, queries and embeddings; how they lie on disk is `retrieval.storage`'s, what an answer is made of
them somebody else's. Q queries, n passages, D dimensions.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor

from retrieval.filters import Filter, to_sql
from retrieval.ids import content_id, metadata_text, valid_text
from retrieval.similarity import Scored, SimilaritySearch, no_more
from retrieval.storage.collection import Collection
from retrieval.storage.manifest import Manifest
from retrieval.storage.metric import Floats, Hits, Metric
from retrieval.storage.search import among, nearest
from retrieval.storage.vectors import IndexConfig, Labels
from retrieval.storage.view import View

INDEXES = ("flat", "hnsw", "ivfpq", "auto")


class FaissStore(SimilaritySearch):
    """Open the store in a folder, or create it.

    Every change is on disk when its call returns, all of it or nothing; `transaction()` joins several. One thread
    or process writes at a time (others wait `lock_timeout` seconds, then TimeoutError), any number read. Readers
    of other processes stay at the generation they have until `reload()`. Open a store after forking, not before.

    Args:
        embedding: turns texts into vectors; None for a store that is only given vectors.
        path: the folder; None for a temporary one that goes with the object.
        index: "flat" (exact, the default), "hnsw", "ivfpq", or "auto" by size; `index_choice` says what it is
            now and why. None for what the folder has.
        metric: "cosine" (the default), "ip" or "l2". None for what the folder has.
        embedding_name: the embedding model's name, which must be the one that filled the store; by default
            the embedding's own `embedding_name`, `model_name` or `model`, or its class's name.
        config: FAISS's parameters and when to rebuild.
        durable: flush every change to the disk, so that it outlives a power cut; without, only a killed program.

    Raises:
        ValueError: the folder holds another metric, index, embedding model or format, or a file in it is
            missing, cut short, changed or of another store; names the file and the remedy.
    """

    def __init__(
        self,
        embedding: Embeddings | None = None,
        path: str | Path | None = None,
        *,
        index: str | None = None,
        metric: str | None = None,
        embedding_name: str | None = None,
        config: IndexConfig | None = None,
        lock_timeout: float = 60.0,
        durable: bool = True,
    ) -> None:
        if index is not None and index not in INDEXES:
            raise ValueError(f"index {index!r} is unknown; choose one of {', '.join(INDEXES)}")
        if path is None:
            path = tempfile.mkdtemp(prefix="faiss-store-")
            weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        self._embedding = embedding
        self._given_name = embedding_name or (model_name(embedding) if embedding else None)
        fresh = Manifest("", index or "flat", Metric(metric or "cosine").name, self._given_name)
        self._collection = Collection(Path(path), fresh, config or IndexConfig(), lock_timeout, durable)
        for what, asked in (("index", index), ("metric", metric), ("embedding", self._given_name)):
            found = getattr(self._collection.manifest, what)
            if asked is not None and found is not None and asked != found:
                raise ValueError(
                    f"{path} was made with {what} {found!r}, not {asked!r}; open it so, or index anew"
                )

    # What it is

    @property
    def path(self) -> Path:
        return self._collection.folder

    @property
    def embeddings(self) -> Embeddings | None:
        return self._embedding

    @property
    def metric(self) -> Metric:
        """Scores any query against any stored vectors exactly as a search does: `metric.scores(query, vectors)`."""
        return Metric(self._collection.manifest.metric)

    @property
    def dimension(self) -> int | None:
        """D; None before the first passage."""
        return self._collection.manifest.dimension

    @property
    def generation(self) -> int:
        """How many changes were committed to what this object reads."""
        return self._collection.manifest.generation

    @property
    def index_choice(self) -> str:
        """The kind of index now, and why it is that one."""
        manifest = self._collection.manifest
        return self._collection.config.choose(manifest.index, manifest.count)[1]

    @property
    def is_exact(self) -> bool:
        """Whether searches find the nearest for certain: the index is flat now."""
        return self._collection.answer(lambda view: view.index is None or view.index.exact)

    def __len__(self) -> int:
        """Number of passages."""
        return self._collection.manifest.count

    def __bool__(self) -> bool:
        """A store is a store, also an empty one."""
        return True

    @property
    def ids_by_position(self) -> list[str]:
        """Every id, in the order in which the passages came."""
        return self._collection.answer(lambda view: list(view.id_of.values()))

    def documents(self) -> Iterator[Document]:
        """Every passage, in the order in which they came."""
        ids = self.ids_by_position
        for start in range(0, len(ids), 500):
            yield from self.get_by_ids(ids[start : start + 500])

    # Writing

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Join changes: all of them are committed at the end, none if the block raises. Searches see the old."""
        with self._collection.change():
            yield

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add passages, or replace those of the same id; returns the ids.

        Without an id a passage gets the UUIDv5 of its text and metadata, so that adding twice is adding once;
        what is there already is not embedded again. Metadata must be JSON.

        Raises:
            ValueError: lists of different lengths, metadata that is no JSON, vectors of another dimension.
        """
        no_more(kwargs)
        texts, stored, ids = self._named(texts, metadatas, ids)
        new = self._new_among(texts, stored, ids)
        vectors = dict(zip(new, self._embedded(texts, new), strict=True))
        self._put_new(texts, stored, ids, vectors)
        return ids

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """`add_texts` that leaves the event loop free: embeds by `aembed_documents`, writes in a thread."""
        no_more(kwargs)
        texts, stored, ids = self._named(texts, metadatas, ids)
        new = await run_in_executor(None, self._new_among, texts, stored, ids)
        matrix = await self._needed_embedding().aembed_documents([texts[i] for i in new]) if new else []
        vectors = dict(zip(new, matrix, strict=True))
        await run_in_executor(None, self._put_new, texts, stored, ids, vectors)
        return ids

    def upsert(self, documents: Sequence[Document], **kwargs: Any) -> list[str]:
        """Add documents, or replace those of the same id: what `add_documents` does, by its other name."""
        return self.add_documents(list(documents), **kwargs)

    async def aupsert(self, documents: Sequence[Document], **kwargs: Any) -> list[str]:
        return await self.aadd_documents(list(documents), **kwargs)

    def add_vectors(
        self,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any]] | None,
        matrix: npt.ArrayLike,
        ids: Sequence[str | None] | None = None,
    ) -> list[str]:
        """Like `add_texts` with the vectors given, `matrix [n, D]`."""
        texts, stored, ids = self._named(texts, metadatas, ids)
        self._put(texts, stored, matrix, ids)
        return ids

    def _named(
        self,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any]] | None,
        ids: Sequence[str | None] | None,
    ) -> tuple[list[str], list[str], list[str]]:
        """Texts, metadata as JSON and ids, checked and of one length."""
        texts = [valid_text(text) for text in texts]
        for what, given in (("metadatas", metadatas), ("ids", ids)):
            if given is not None and len(given) != len(texts):
                raise ValueError(f"{len(given)} {what} for {len(texts)} texts; give one each, or none")
        metadatas = metadatas or [{}] * len(texts)
        stored = [metadata_text(metadata or {}) for metadata in metadatas]
        named = [
            valid_text(name) if name is not None else content_id(text, metadata)
            for name, text, metadata in zip(ids or [None] * len(texts), texts, metadatas, strict=True)
        ]
        return texts, stored, named

    def _new_among(self, texts: list[str], stored: list[str], ids: list[str]) -> list[int]:
        """Which of the passages are not in the store as they are; of several with one id, the last."""
        there = {name: (text, metadata) for name, text, metadata in self._rows(ids)}
        last = {name: i for i, name in enumerate(ids)}
        return [i for name, i in last.items() if there.get(name) != (texts[i], stored[i])]

    def _embedded(self, texts: list[str], chosen: list[int]) -> list[list[float]]:
        return self._needed_embedding().embed_documents([texts[i] for i in chosen]) if chosen else []

    def _put_new(
        self, texts: list[str], stored: list[str], ids: list[str], vectors: dict[int, list[float]]
    ) -> None:
        """Write the passages that have vectors, and those that were there before the lock was taken and are no more:
        another process, or this transaction, deleted or replaced them."""
        if not ids:
            return
        with self._collection.change() as change:
            last = {name: i for i, name in enumerate(ids)}
            lost = [
                i
                for name, i in last.items()
                if i not in vectors and not change.has(name, texts[i], stored[i])
            ]
            vectors = vectors | dict(zip(lost, self._embedded(texts, lost), strict=True))
            chosen = sorted(vectors)
            parts = [[part[i] for i in chosen] for part in (texts, stored, ids)]
            self._put(parts[0], parts[1], [vectors[i] for i in chosen], parts[2])

    def _put(self, texts: list[str], stored: list[str], matrix: npt.ArrayLike, ids: list[str]) -> None:
        vectors = self.metric.prepared(matrix if len(texts) else [[]], None)
        if not texts:
            return
        if len(vectors) != len(texts):
            raise ValueError(f"{len(vectors)} vectors for {len(texts)} texts; give one each")
        with self._collection.change() as change:
            change.fit(vectors.shape[1], self._given_name)
            for name, text, metadata, vector in zip(ids, texts, stored, vectors, strict=True):
                change.put(name, text, metadata, vector.tobytes())

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete by id, or everything where `ids` is None; ids that are not there do no harm. Returns True."""
        no_more(kwargs)
        with self._collection.change() as change:
            for name in change.passages.standing_ids() if ids is None else ids:
                change.remove(name)
        return True

    # Reading

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The passages of these ids in their order, without those that are not there and without repeats."""
        return [as_document(*row) for row in self._rows(ids)]

    def _rows(self, ids: Sequence[str]) -> list[tuple[str, str, str]]:
        def ask(view: View) -> list[tuple[str, str, str]]:
            return view.texts([view.label_of[name] for name in dict.fromkeys(ids) if name in view.label_of])

        return self._collection.answer(ask)

    def search_vectors(self, matrix: npt.ArrayLike, k: int = 4, filter: Filter | None = None) -> Hits:
        """The k nearest passages of each row of `matrix [Q, D]`: `(ids, scores)`, best first.

        A pair of query and passage has the same score, to the last bit, whatever it is searched together
        with, and equal scores stand in the order of their ids: a batch answers what its queries would
        answer one by one. Over a flat index the answer is exact; else a search for more may find nearer ones.
        """
        return self._collection.answer(lambda view: self._nearest(view, matrix, k, filter))

    def search_among(self, matrix: npt.ArrayLike, ids: Sequence[str], k: int = 4) -> Hits:
        """Like `search_vectors` among these passages only (a cache of them); ids that are not there are left out."""

        def ask(view: View) -> Hits:
            labels = [view.label_of[name] for name in dict.fromkeys(ids) if name in view.label_of]
            queries = view.metric.prepared(matrix, view.manifest.dimension)
            return among(view, queries, k, np.array(labels, dtype=np.int64))

        return self._collection.answer(ask)

    def search_batch(self, queries: Sequence[str], k: int = 4, filter: Filter | None = None) -> Hits:
        """The k nearest passages of each query: `(ids, scores)`, best first, as `search_vectors`."""
        vectors = [self._needed_embedding().embed_query(query) for query in queries]
        return self.search_vectors(vectors, k, filter) if vectors else Hits([], [])

    async def asearch_vectors(self, matrix: npt.ArrayLike, k: int = 4, filter: Filter | None = None) -> Hits:
        return await run_in_executor(None, self.search_vectors, matrix, k, filter)

    async def asearch_batch(self, queries: Sequence[str], k: int = 4, filter: Filter | None = None) -> Hits:
        return await run_in_executor(None, self.search_batch, queries, k, filter)

    def vectors(self, ids: Sequence[str]) -> Floats:
        """The vectors `[n, D]` of these passages as they are searched (unit length for cosine).

        Raises:
            ValueError: an id that is not in the store.
        """

        def ask(view: View) -> Floats:
            if missing := [name for name in ids if name not in view.label_of]:
                raise ValueError(f"{missing[0]!r} is not in {self.path}; ask for ids that a search returned")
            return view.stored_vectors([view.label_of[name] for name in ids])

        return self._collection.answer(ask)

    def _nearest(self, view: View, matrix: npt.ArrayLike, k: int, filter: Filter | None) -> Hits:
        queries = view.metric.prepared(matrix, view.manifest.dimension)
        return nearest(view, queries, k, allowed_labels(view, filter))

    def scored(self, matrix: npt.ArrayLike, k: int, filter: Filter | None = None) -> list[Scored]:
        """The k nearest passages of each row of `matrix [Q, D]`, with their scores."""

        def ask(view: View) -> list[Scored]:
            hits = self._nearest(view, matrix, k, filter)
            rows = [view.texts([view.label_of[name] for name in ids]) for ids in hits.ids]
            return [
                [(as_document(*row), float(score)) for row, score in zip(found, scores, strict=True)]
                for found, scores in zip(rows, hits.scores, strict=True)
            ]

        return self._collection.answer(ask)

    # Upkeep

    def is_stale(self) -> bool:
        """Whether another process has committed something newer than this object reads."""
        return self._collection.is_stale()

    def reload(self) -> bool:
        """Read the newest generation from now on; False where this was it."""
        return self._collection.reload()

    def save(self) -> None:
        """Bring the index file up to date. Passages are safe without it; opening is quicker after it."""
        self._collection.save()

    def close(self) -> None:
        """Let go of the files. Leaving it to the end of the program does no harm."""
        self._collection.close()

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Open or create a store (`path=` and the constructor's other arguments) and add texts to it."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store


def model_name(embedding: Embeddings) -> str:
    """The name by which an embedding model is known to the manifest."""
    named = (getattr(embedding, attribute, None) for attribute in ("embedding_name", "model_name", "model"))
    return next((name for name in named if isinstance(name, str) and name), type(embedding).__name__)


def allowed_labels(view: View, filter: Filter | None) -> Labels | None:
    """Labels `[n]` of the passages that meet a filter; None for all of them."""
    if not filter:
        return None
    condition, values = to_sql(filter)
    if view.passages is None:
        return np.empty(0, dtype=np.int64)
    return view.passages.matching(view.manifest.generation, condition, values)


def as_document(passage_id: str, text: str, metadata: str) -> Document:
    return Document(id=passage_id, page_content=text, metadata=json.loads(metadata))
