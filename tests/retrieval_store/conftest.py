"""Stores that need not outlive a power cut, so that tests do not wait for the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from retrieval import FaissStore

Opener = Callable[..., FaissStore]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Open the store `name` under the test's folder; all are closed at the end."""
    stores = []

    def opener(embedding: Embeddings | None = None, name: str = "store", **options: Any) -> FaissStore:
        stores.append(FaissStore(embedding, tmp_path / name, **{"durable": False, **options}))
        return stores[-1]

    yield opener
    for store in stores:
        store.close()
