"""An embedding for tests: counts letters, so that texts with the same letters are near; remembers what it saw."""

from __future__ import annotations

import numpy as np
from langchain_core.embeddings import Embeddings


class LetterCounts(Embeddings):
    """26 dimensions; `seen` lists the passages that were embedded."""

    def __init__(self, model_name: str = "letters") -> None:
        self.model_name = model_name
        self.seen: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.seen += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(text.lower().count(chr(ord("a") + i))) for i in range(26)]


def random_matrix(rows: int, columns: int = 16, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
