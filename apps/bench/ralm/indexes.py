"""The real retrievers of the benchmark. Knows how they are filled; a kind that cannot be had here is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from apps.bench.ralm.setting import RalmBench
from apps.bench.ralm.waiting import Slowed
from apps.bench.report import say
from apps.ralm.retrievers import Retriever, retriever_for
from retrieval import Bm25Index, FaissStore, default_embeddings
from retrieval.embedding_cache import EmbeddingCache
from retrieval.storage.metric import Floats

_BLOCK = 50_000
#: A search service over the network.
_REMOTE = 0.05


@dataclass(frozen=True)
class Index:
    """A retriever with its name, and in words what is in it."""

    name: str
    retriever: Retriever
    about: str


class Forgetful(EmbeddingCache):
    """Nobody profits from what another contestant has embedded: all ask with the same texts."""

    def get(self, model: str, texts: Sequence[str], dimension: int) -> dict[str, Floats]:
        return {}

    def put(self, model: str, texts: Sequence[str], vectors: Floats) -> None:
        """Keeps nothing."""


def bm25_index(texts: Sequence[str]) -> Retriever:
    """BM25 over the passages."""
    say(f"indexing {len(texts):,} passages (bm25)")
    return retriever_for(Bm25Index.from_texts(texts))


def real_indexes(bench: RalmBench, texts: Sequence[str]) -> Iterator[Index]:
    """Flat, HNSW, BM25, and BM25 behind 50 ms, one after the other: none is in memory longer than it is used."""
    embeddings, reason = default_embeddings()
    if embeddings is None:
        say(f"flat and hnsw left out: {reason}")
    else:
        some = _evenly(texts, bench.embedded)
        say(f"embedding {len(some):,} passages")
        vectors = np.asarray(embeddings.embed_documents(some), dtype=np.float32)
        embeddings.cache = Forgetful()
        for kind, count in (("flat", bench.vectors), ("hnsw", bench.graph)):
            say(f"filling {kind} with {count:,} vectors")
            with (
                TemporaryDirectory() as folder,
                closing(FaissStore(embeddings, index=kind, durable=False, path=folder)) as store,
            ):
                _fill(store, some, vectors, count)
                about = (
                    f"{len(store):,} x {vectors.shape[1]}, {len(some):,} of them passages, the others random"
                )
                yield Index(kind, retriever_for(store), about)
    words = bm25_index(texts)
    yield Index("bm25", words, f"{len(texts):,} passages")
    yield Index(f"bm25 + {1e3 * _REMOTE:.0f} ms", Slowed(words, _REMOTE), f"{len(texts):,} passages")


def _evenly(texts: Sequence[str], count: int) -> list[str]:
    return list(texts[:: max(1, len(texts) // count)][:count])


def _fill(store: FaissStore, texts: list[str], vectors: Floats, count: int) -> None:
    """The passages and random unit vectors up to `count`; these carry the passages' texts too."""
    store.add_vectors(texts, None, vectors, ids=[f"p{i}" for i in range(len(texts))])
    rng: Any = np.random.default_rng(0)
    for start in range(len(texts), count, _BLOCK):
        size = min(_BLOCK, count - start)
        noise = rng.standard_normal((size, vectors.shape[1]), dtype=np.float32)
        noise /= np.linalg.norm(noise, axis=1, keepdims=True)
        fillers = [texts[i % len(texts)] for i in range(size)]
        store.add_vectors(fillers, None, noise, ids=[f"r{start + i}" for i in range(size)])
