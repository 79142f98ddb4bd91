"""Retrievers as speculation needs them: encode once, search in batches, and score a few cached passages alone.

Knows stores and retrievers. Does not know language models. A passage is named by its id. The answer to a query is
the first passage that a search returns, and depends on the query alone: not on the batch, and not on `k`. Plain
retrieval asks for the answer alone, a verification for more, and both must get the same one. Exact search sees to
that by itself. An approximate index finds nearer passages where it looks for more: the answer is what it finds when
it is asked for `DEPTH`, however many are wanted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

from retrieval import Bm25Index, FaissStore
from retrieval.ids import content_id
from retrieval.storage.metric import Floats, Metric

from .cache import DocumentCache, ScoredCache, VectorCache

#: Passages that an approximate index is always asked for.
DEPTH = 20
Score = Callable[[str, Sequence[str]], Sequence[float]]
"""(query, texts) -> the retriever's own scores of these texts, higher is better"""


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked, and its vector [D] where the retriever searches by vectors."""

    text: str
    vector: Floats | None = None


class Retriever(ABC):
    """A corpus that can be searched. `search` may be called from another thread than the rest."""

    def encode(self, texts: Sequence[str]) -> list[Query]:
        """Queries ready to be searched and looked up any number of times."""
        return [Query(text) for text in texts]

    @abstractmethod
    def search(self, queries: Sequence[Query], k: int) -> list[list[str]]:
        """Ids of the k best passages of each query, best first; fewer or none where there are no more.

        The first of them is the same for every k; see `of_one_depth` for an index of which that is not true.
        """

    @abstractmethod
    def text(self, name: str) -> str:
        """The text of a passage that a search returned."""

    @abstractmethod
    def cache(self) -> DocumentCache:
        """An empty cache that ranks as this retriever does."""


def of_one_depth(search: Callable[[int], list[list[str]]], k: int) -> list[list[str]]:
    """What `search(k)` finds for some queries, but first, whatever k is, what `search(DEPTH)` does."""
    found = search(DEPTH)
    if k <= DEPTH:
        return [names[:k] for names in found]
    more = search(k)
    return [list(dict.fromkeys(names + others))[:k] for names, others in zip(found, more, strict=True)]


class DenseRetriever(Retriever):
    """A `FaissStore`: exact over a flat index, approximate over HNSW and IVF-PQ."""

    def __init__(self, store: FaissStore) -> None:
        self.store = store
        self._embedding = needed_embedding(store)

    def encode(self, texts: Sequence[str]) -> list[Query]:
        metric = self.store.metric
        return [
            Query(text, metric.prepared([self._embedding.embed_query(text)], self.store.dimension)[0])
            for text in texts
        ]

    def search(self, queries: Sequence[Query], k: int) -> list[list[str]]:
        matrix = np.stack([_vector(query) for query in queries])

        def found(depth: int) -> list[list[str]]:
            return self.store.search_vectors(matrix, depth).ids

        return found(k) if self.store.is_exact else of_one_depth(found, k)

    def text(self, name: str) -> str:
        return _only(self.store.get_by_ids([name]), name)

    def cache(self) -> DocumentCache:
        return VectorCache(self.store.metric, self.store.vectors)


class SparseRetriever(Retriever):
    """A `Bm25Index`; cached passages are scored with the statistics of the whole corpus."""

    def __init__(self, index: Bm25Index) -> None:
        self.index = index

    def search(self, queries: Sequence[Query], k: int) -> list[list[str]]:
        return self.index.search_batch([query.text for query in queries], k).ids

    def text(self, name: str) -> str:
        return _only(self.index.get_by_ids([name]), name)

    def cache(self) -> DocumentCache:
        # A passage without a word of the query scores 0 and is never returned.
        return ScoredCache(self.index.scores, least=0.0)


class LangChainRetriever(Retriever):
    """Any LangChain retriever or vector store; `score` ranks cached texts as the retriever would.

    A `VectorStore` with embeddings needs none: its passages are embedded again and compared by cosine. Only the
    speed hangs on how well the two agree. Texts that were found stay in memory. A `VectorStore` may be approximate
    and is always asked for `DEPTH` passages; whether it answers a query alike every time is its own affair.

    Raises:
        ValueError: there is no way to score a passage without asking the retriever.
    """

    def __init__(self, retriever: BaseRetriever | VectorStore, score: Score | None = None) -> None:
        self.retriever = retriever
        self._texts: dict[str, str] = {}
        self._vectors: dict[str, Floats] = {}
        self._score = score
        store = retriever.vectorstore if isinstance(retriever, VectorStoreRetriever) else retriever
        self._embedding = store.embeddings if isinstance(store, VectorStore) and score is None else None
        if score is None and self._embedding is None:
            raise ValueError(
                f"{type(store).__name__} cannot score a passage by itself, which speculation needs; give score=, a "
                "function (query, texts) -> scores, or use FaissStore, Bm25Index or a vector store with embeddings"
            )

    def encode(self, texts: Sequence[str]) -> list[Query]:
        if self._embedding is None:
            return super().encode(texts)
        vectors = Metric("cosine").prepared([self._embedding.embed_query(text) for text in texts], None)
        return [Query(text, vector) for text, vector in zip(texts, vectors, strict=True)]

    def search(self, queries: Sequence[Query], k: int) -> list[list[str]]:
        if not isinstance(self.retriever, VectorStore):
            # Not every retriever knows `k`; what is beyond it is of no use here.
            return [self._noted(self.retriever.invoke(query.text)[:k]) for query in queries]
        store = self.retriever

        def found(depth: int) -> list[list[str]]:
            return [self._noted(store.similarity_search(query.text, k=depth)) for query in queries]

        return of_one_depth(found, k)

    def text(self, name: str) -> str:
        return self._texts[name]

    def cache(self) -> DocumentCache:
        if self._score is None:
            return VectorCache(Metric("cosine"), self._embedded)
        score = self._score
        return ScoredCache(lambda query, names: score(query, [self._texts[name] for name in names]))

    def _noted(self, documents: Sequence[Document]) -> list[str]:
        names = [found.id or content_id(found.page_content, found.metadata) for found in documents]
        self._texts.update(zip(names, (found.page_content for found in documents), strict=True))
        return names

    def _embedded(self, names: Sequence[str]) -> Floats:
        assert self._embedding is not None
        new = [name for name in names if name not in self._vectors]
        if new:
            matrix = self._embedding.embed_documents([self._texts[name] for name in new])
            self._vectors.update(zip(new, Metric("cosine").prepared(matrix, None), strict=True))
        return np.stack([self._vectors[name] for name in names])


def retriever_for(source: Any, score: Score | None = None) -> Retriever:
    """The adapter of a store, an index or any LangChain retriever; a `Retriever` is returned as it is.

    Raises ValueError for what cannot be searched or cannot score a cached passage.
    """
    if isinstance(source, Retriever):
        return source
    inner = source.vectorstore if isinstance(source, VectorStoreRetriever) else source
    plain = inner is source or (source.search_type == "similarity" and not source.search_kwargs)
    if isinstance(inner, FaissStore) and score is None and plain:
        return DenseRetriever(inner)
    if isinstance(source, Bm25Index) and score is None:
        return SparseRetriever(source)
    if isinstance(source, BaseRetriever | VectorStore):
        return LangChainRetriever(source, score)
    raise ValueError(
        f"{type(source).__name__} is no retriever; give a FaissStore, a Bm25Index, or a LangChain retriever or store"
    )


def needed_embedding(store: FaissStore) -> Embeddings:
    """The store's embedding. Raises ValueError where it has none."""
    if store.embeddings is None:
        raise ValueError(
            f"the store at {store.path} has no embedding for queries; open it with embedding=..."
        )
    return store.embeddings


def _vector(query: Query) -> Floats:
    assert query.vector is not None, "the query was encoded by another retriever"
    return query.vector


def _only(found: list[Document], name: str) -> str:
    if not found:
        raise ValueError(f"passage {name!r} is gone; do not delete passages while they are being retrieved")
    return found[0].page_content
