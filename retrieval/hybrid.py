"""Several retrievers as one, merged by reciprocal rank; knows nothing of how any of them searches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore
from pydantic import Field, field_validator, model_validator

from retrieval.ids import content_id


class HybridRetriever(BaseRetriever):
    """Reciprocal rank fusion (Cormack, Clarke and Büttcher 2009): a passage scores sum of weight / (constant + rank).

    Args:
        retrievers: any LangChain retrievers or vector stores, at least one.
        k: how many passages; `invoke(query, k=...)` overrides it.
        depth: how many passages each retriever is asked for; by default four times k, at least 20. Retrievers
            that know no `k` give what they give.
        weights: of each retriever; equal by default.
        constant: the larger, the less the first ranks stand out.

    The same passage is known by its id, or without one by text and metadata. Equal scores keep the order in
    which the retrievers named them.
    """

    retrievers: list[BaseRetriever] = Field(min_length=1)
    k: int = Field(default=4, ge=1)
    depth: int | None = Field(default=None, ge=1)
    weights: list[float] | None = None
    constant: float = Field(default=60.0, gt=0)

    @field_validator("retrievers", mode="before")
    @classmethod
    def _stores_are_retrievers(cls, given: Any) -> Any:
        if isinstance(given, Sequence):
            return [one.as_retriever() if isinstance(one, VectorStore) else one for one in given]
        return given

    @model_validator(mode="after")
    def _one_weight_each(self) -> HybridRetriever:
        if self.weights is not None and len(self.weights) != len(self.retrievers):
            raise ValueError(
                f"{len(self.weights)} weights for {len(self.retrievers)} retrievers; give one each"
            )
        return self

    def _asked(self, k: int | None) -> tuple[int, int]:
        """How many to return and how many to ask each retriever for."""
        k = self.k if k is None else k
        if k < 1:
            raise ValueError(f"k is {k}; ask for at least one passage")
        return k, self.depth or max(4 * k, 20)

    def fuse(self, rankings: Sequence[Sequence[Document]], k: int) -> list[tuple[Document, float]]:
        """The k best of several rankings with their fused scores."""
        scores: dict[str, float] = {}
        documents: dict[str, Document] = {}
        for ranking, weight in zip(rankings, self.weights or [1.0] * len(rankings), strict=True):
            for rank, document in enumerate(ranking, start=1):
                name = document.id or content_id(document.page_content, document.metadata)
                documents.setdefault(name, document)
                scores[name] = scores.get(name, 0.0) + weight / (self.constant + rank)
        best = sorted(scores, key=lambda name: -scores[name])[:k]
        return [(documents[name], scores[name]) for name in best]

    def search(self, query: str, k: int | None = None) -> list[tuple[Document, float]]:
        """The best passages with their fused scores."""
        k, depth = self._asked(k)
        return self.fuse([one.invoke(query, k=depth) for one in self.retrievers], k)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        k, depth = self._asked(k)
        config: Any = {"callbacks": run_manager.get_child()}
        rankings = [one.invoke(query, config, k=depth) for one in self.retrievers]
        return [document for document, _ in self.fuse(rankings, k)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        k, depth = self._asked(k)
        config: Any = {"callbacks": run_manager.get_child()}
        rankings = await asyncio.gather(*(_ainvoke(one, query, config, depth) for one in self.retrievers))
        return [document for document, _ in self.fuse(rankings, k)]


async def _ainvoke(one: BaseRetriever, query: str, config: Any, k: int) -> list[Document]:
    """`ainvoke`, in a thread where there is no async form of its own: LangChain's default does not take k."""
    if type(one)._aget_relevant_documents is BaseRetriever._aget_relevant_documents:
        return await run_in_executor(None, one.invoke, query, config, k=k)
    return await one.ainvoke(query, config, k=k)
