"""Passages, queries, scores, persistence; nothing of language-model decoding.

Names are imported when they are first used, so that only what is used has to be installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrieval.bm25 import Bm25Index
    from retrieval.document_index import DocumentIndex
    from retrieval.embeddings import TransformerEmbeddings
    from retrieval.faiss_store import FaissStore
    from retrieval.hybrid import HybridRetriever
    from retrieval.offline_model import default_embeddings

MODULES = {
    "Bm25Index": "retrieval.bm25",
    "DocumentIndex": "retrieval.document_index",
    "FaissStore": "retrieval.faiss_store",
    "HybridRetriever": "retrieval.hybrid",
    "TransformerEmbeddings": "retrieval.embeddings",
    "default_embeddings": "retrieval.offline_model",
}
__all__ = [
    "Bm25Index",
    "DocumentIndex",
    "FaissStore",
    "HybridRetriever",
    "TransformerEmbeddings",
    "default_embeddings",
]


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(MODULES[name]), name)
