"""The two searches over an index's passages, by meaning and by words, made to follow the records.

Knows `FaissStore`, `Bm25Index` and embeddings. Does not know files, or why passages come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever

from .bm25 import FILE as WORDS_FILE
from .bm25 import Bm25Index
from .document_records import DocumentRecords
from .embeddings import BLOCK, TransformerEmbeddings
from .faiss_store import FaissStore
from .hybrid import HybridRetriever
from .index_summary import Progress

VECTORS, WORDS = "vectors", "words"


class Searches:
    """Vectors (None without embeddings) and words (None before the first indexing) in the folder of an index.

    Both are made from the records, and can be made again: a damaged one may be deleted.
    """

    def __init__(self, folder: Path, embeddings: Embeddings | None) -> None:
        self.folder = folder
        self.embeddings = embeddings
        self.vectors = FaissStore(embeddings, folder / VECTORS) if embeddings is not None else None
        self.words = self._open_words()

    @property
    def agree(self) -> bool:
        """Whether both have passages, and equally many."""
        return self.words is not None and (self.vectors is None or len(self.vectors) == len(self.words))

    def retriever(self, k: int) -> BaseRetriever:
        """Both merged by rank, or words alone."""
        assert self.words is not None
        if self.vectors is None:
            return self.words.model_copy(update={"k": k})
        return HybridRetriever(retrievers=[self.vectors.as_retriever(), self.words], k=k)

    def follow(self, records: DocumentRecords, progress: Callable[[Progress], None]) -> int:
        """Adds and deletes until both hold the records' passages; returns how many are new."""
        wanted = records.passage_ids()
        self.words = self._open_words()  # another process may have written since
        have = set(self.words.ids_by_position) if self.words is not None else set()
        if self.vectors is not None:
            self.vectors.reload()
            self._follow_vectors(self.vectors, records, wanted, progress)
        progress(Progress("saving", 0, 1))
        if self.words is None or have != set(wanted):
            self.words = Bm25Index.from_documents(records.passages(), self.folder / WORDS)
        progress(Progress("saving", 1, 1))
        return len(set(wanted) - have)

    def close(self) -> None:
        if self.vectors is not None:
            self.vectors.close()

    def _open_words(self) -> Bm25Index | None:
        folder = self.folder / WORDS
        return Bm25Index(path=folder) if (folder / WORDS_FILE).exists() else None

    def _follow_vectors(
        self,
        vectors: FaissStore,
        records: DocumentRecords,
        wanted: Sequence[str],
        progress: Callable[[Progress], None],
    ) -> None:
        present = set(vectors.ids_by_position)
        missing = [name for name in wanted if name not in present]
        blocks = [missing[start : start + BLOCK] for start in range(0, len(missing), BLOCK)]
        if isinstance(self.embeddings, TransformerEmbeddings):
            # First everything into the cache, which a kill leaves whole; then one short change, seen at once.
            for number, block in enumerate(blocks):
                progress(Progress("embedding", number * BLOCK, len(missing)))
                self._embedded([passage.page_content for passage in records.passages(block)])
        gone = sorted(present - set(wanted))
        if missing or gone:
            with vectors.transaction():
                vectors.delete(gone)
                for block in blocks:
                    some = list(records.passages(block))
                    texts = [passage.page_content for passage in some]
                    metadatas = [passage.metadata for passage in some]
                    vectors.add_vectors(texts, metadatas, self._embedded(texts), ids=block)
            vectors.save()
        progress(Progress("embedding", len(missing), len(missing)))

    def _embedded(self, texts: list[str]) -> np.ndarray:
        assert self.embeddings is not None
        if isinstance(self.embeddings, TransformerEmbeddings):
            return self.embeddings.embed_matrix(texts)
        return np.asarray(self.embeddings.embed_documents(texts), dtype=np.float32)
