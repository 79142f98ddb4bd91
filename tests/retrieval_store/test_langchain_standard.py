"""LangChain's own standard tests, sync and async, nothing overridden."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from retrieval import FaissStore


class TestFlat(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        store = FaissStore(self.get_embeddings(), tmp_path / "store")
        yield store
        store.close()


class TestHnsw(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        store = FaissStore(self.get_embeddings(), tmp_path / "store", index="hnsw", metric="l2")
        yield store
        store.close()
