"""LangChain's own standard tests, sync and async, nothing overridden."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests

from retrieval import Bm25Index, FaissStore, HybridRetriever

DOCUMENTS = [
    Document(page_content=f"the {name} eats grain") for name in ("hen", "goose", "duck", "mouse", "ox")
]


class TestFlat(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        store = FaissStore(self.get_embeddings(), tmp_path / "store", durable=False)
        yield store
        store.close()


class TestHnsw(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        store = FaissStore(
            self.get_embeddings(), tmp_path / "store", index="hnsw", metric="l2", durable=False
        )
        yield store
        store.close()


class TestBm25(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return Bm25Index

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"documents": DOCUMENTS}

    @property
    def retriever_query_example(self) -> str:
        return "who eats grain?"


class TestHybrid(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return HybridRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        words = Bm25Index(documents=DOCUMENTS)
        vectors = FaissStore.from_documents(
            DOCUMENTS, VectorStoreIntegrationTests.get_embeddings(), durable=False
        )
        return {"retrievers": [words, vectors]}

    @property
    def retriever_query_example(self) -> str:
        return "who eats grain?"
