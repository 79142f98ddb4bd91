"""LangChain's ways to search, sync and async, over any store that can score vectors; keeps nothing itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from retrieval.filters import Filter
from retrieval.storage.metric import Floats, Metric

Scored = list[tuple[Document, float]]


class SimilaritySearch(VectorStore):
    """What `VectorStore` asks of a search, from `scored` and `vectors`. Scores are the metric's own.

    Async forms embed by the embedding's own async form and search in a thread.
    """

    @property
    @abstractmethod
    def metric(self) -> Metric: ...

    @abstractmethod
    def scored(self, matrix: npt.ArrayLike, k: int, filter: Filter | None) -> list[Scored]:
        """The k nearest passages of each row of `matrix [Q, D]`."""

    @abstractmethod
    def vectors(self, ids: Sequence[str]) -> Floats: ...

    def _needed_embedding(self) -> Embeddings:
        if self.embeddings is None:
            raise ValueError(
                "this store has no embedding for texts; open it with embedding=..., or search by vector"
            )
        return self.embeddings

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> Scored:
        """The k nearest passages with their scores: cosine and ip higher is nearer, l2 (squared) lower is."""
        no_more(kwargs)
        return self.scored([self._needed_embedding().embed_query(query)], k, filter)[0]

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> Scored:
        no_more(kwargs)
        vector = await self._needed_embedding().aembed_query(query)
        return (await run_in_executor(None, self.scored, [vector], k, filter))[0]

    def similarity_search(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """The k nearest passages; `filter` is a condition on metadata (`retrieval.filters.to_sql`)."""
        return [document for document, _ in self.similarity_search_with_score(query, k, filter, **kwargs)]

    async def asimilarity_search(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        return [found for found, _ in await self.asimilarity_search_with_score(query, k, filter, **kwargs)]

    def similarity_search_with_score_by_vector(
        self, embedding: Sequence[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> Scored:
        no_more(kwargs)
        return self.scored([embedding], k, filter)[0]

    def similarity_search_by_vector(
        self, embedding: Sequence[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        return [
            found for found, _ in self.similarity_search_with_score_by_vector(embedding, k, filter, **kwargs)
        ]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return self.metric.relevance

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """k of the `fetch_k` nearest passages, each near the query and unlike those before it.

        Carbonell and Goldstein 1998; `lambda_mult` 1 asks for nearness alone, 0 for difference alone.
        """
        no_more(kwargs)
        found = [document for document, _ in self.scored([embedding], max(k, fetch_k), filter)[0]]
        if not found:
            return []
        vectors = self.vectors([document.id or "" for document in found])
        query = np.asarray(embedding, dtype=np.float32)
        return [found[i] for i in maximal_marginal_relevance(query, list(vectors), lambda_mult, k)]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """`max_marginal_relevance_search_by_vector` of an embedded query."""
        vector = self._needed_embedding().embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter, **kwargs)

    async def amax_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        vector = await self._needed_embedding().aembed_query(query)
        return await run_in_executor(
            None,
            self.max_marginal_relevance_search_by_vector,
            vector,
            k,
            fetch_k,
            lambda_mult,
            filter,
            **kwargs,
        )


def no_more(unknown: dict[str, Any]) -> None:
    """Arguments that nobody reads are a mistake, not something to drop."""
    if unknown:
        raise ValueError(f"argument {next(iter(unknown))!r} is unknown; take it out")
