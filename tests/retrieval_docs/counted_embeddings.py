"""Embeddings without a model, that write down what they are asked for."""

from __future__ import annotations

import hashlib

import numpy as np
from langchain_core.embeddings import Embeddings


class CountedEmbeddings(Embeddings):
    """A random unit vector per text, the same in every run."""

    def __init__(self, name: str = "counted", dimension: int = 8) -> None:
        self.embedding_name, self.dimension = name, dimension
        self.asked: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        vector = np.random.default_rng(seed).normal(size=self.dimension)
        return list(map(float, vector / np.linalg.norm(vector)))
