"""Small corpora, retrievers over them, and engines whose outputs wander enough to change the document."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from apps.ralm.cache import DocumentCache, ScoredCache
from apps.ralm.retrievers import Query, Retriever
from core import Engine, SamplingParams
from core.budget import FixedBudget
from retrieval import Bm25Index, FaissStore
from tests.core.models import FIRST_WORD, VOCAB, target_of, word_tokenizer

GREEDY = SamplingParams(max_new_tokens=14)
SAMPLED = SamplingParams(temperature=0.9, top_p=0.95, max_new_tokens=14, seed=3)
SAMPLING = {"greedy": GREEDY, "sampled": SAMPLED}
PROMPTS = ["w9 w33 w70 w12 w9 w33", "w50 w51 w52", "w88 w21 w40 w41 w88 w21 w40 w41 w9"]


class WordVectors(Embeddings):
    """The sum of one fixed random vector per word."""

    model = "word-vectors"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = sum((_word_vector(word) for word in text.split()), np.zeros(16))
        return [float(x) for x in vector]


@cache
def _word_vector(word: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).standard_normal(16)


@cache
def documents(count: int = 40) -> tuple[Document, ...]:
    """Random words, some documents longer than the limit that tests set."""
    rng = np.random.default_rng(1)
    texts = [
        " ".join(f"w{word}" for word in rng.integers(FIRST_WORD, VOCAB, rng.integers(6, 24)))
        for _ in range(count)
    ]
    return tuple(Document(id=f"d{i:02}", page_content=text) for i, text in enumerate(texts))


@cache
def sources() -> dict[str, Any]:
    """Every kind of retriever over the same documents."""
    found = list(documents())
    stores = {kind: FaissStore(WordVectors(), index=kind, durable=False) for kind in ("flat", "hnsw")}
    for store in stores.values():
        store.add_documents(found)
    memory = InMemoryVectorStore(WordVectors())
    memory.add_documents(found)
    words = Bm25Index.from_documents(found, language=None)
    return {**stores, "bm25": words, "langchain": memory}


@cache
def engine(drafter: str = "copy", prefix_rows: int = 4, eos: bool = False) -> Engine:
    target = target_of("llama", torch.float64, num_hidden_layers=1)
    if not eos:
        target.eos_token_ids = frozenset()
    budget = None if drafter == "none" else FixedBudget(4)
    return Engine(target, word_tokenizer(), drafter, prefix_rows=prefix_rows, budget=budget)


class Scripted(Retriever):
    """Answers a query of number n by the ids `script(n)`; caches guess `guess(n, cached ids)`, or their first."""

    def __init__(self, script: Any, guess: Any = None, delay: float = 0.0) -> None:
        self._texts = {document.id or "": document.page_content for document in documents()}
        self._script, self._guess = script, guess
        self._lock = threading.Lock()
        self.delay = delay
        self.calls: list[int] = []

    def number(self, text: str) -> int:
        """A number that depends on the text alone, so that plain and speculative retrieval see the same corpus."""
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")

    def search(self, queries: Sequence[Query], k: int) -> list[list[str]]:
        with self._lock:
            self.calls.append(len(queries))
        if self.delay:
            time.sleep(self.delay)
        return [list(self._script(self.number(query.text)))[:k] for query in queries]

    def text(self, name: str) -> str:
        return self._texts[name]

    def cache(self) -> DocumentCache:
        return _Guessing(lambda query, names: np.zeros(len(names)), self)

    def guessed(self, text: str, names: list[str]) -> str | None:
        if self._guess is None:
            return names[0]
        name: str | None = self._guess(self.number(text), names)
        return name


class _Guessing(ScoredCache):
    def __init__(self, score: Any, scripted: Scripted) -> None:
        super().__init__(score)
        self._scripted = scripted

    def _best(self, query: Query) -> str | None:
        return self._scripted.guessed(query.text, self.names)
