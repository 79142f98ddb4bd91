"""The documents of a chat: indexed, looked up, and judged good enough or not.

Knows `retrieval`'s document index, and where the handbook's is kept. Does not know models or prompts.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from langchain_core.documents import Document
from rich.console import Console
from rich.progress import Progress as Bar

from apps.places import cache_folder
from retrieval.bm25 import Bm25Index
from retrieval.chunking import ChunkConfig
from retrieval.document_index import RECORDS, DocumentIndex, IndexSummary, Progress
from retrieval.hybrid import HybridRetriever
from retrieval.words import words

from .config import handbook
from .follow_up import content_words
from .sources import Source

#: Passages below are not about the question. With vectors it is the cosine of question and passage; by words alone,
#: the share of the question's words, weighted by rarity, that stand in the passage.
MIN_COSINE = 0.28
MIN_SHARE = 0.4
#: A passage with nearly all words of the question is about it, whatever its vector says (names, code, numbers).
SURE_SHARE = 0.9
HISTORY = Path("chat") / "history.jsonl"
#: For another chat that indexes the handbook just now.
_WAIT_SECONDS = 600.0


class Library:
    """An index with the threshold below which nothing is good enough.

    Each source's score is what the threshold is compared with, not the rank fusion's. Raises ValueError for a
    threshold that no score can have.
    """

    def __init__(
        self, index: DocumentIndex, min_score: float | None = None, history: Path | None = None
    ) -> None:
        self.index = index
        self.has_vectors = index.vectors is not None
        self.min_score = (MIN_COSINE if self.has_vectors else MIN_SHARE) if min_score is None else min_score
        # Who states a threshold means it.
        self._is_default = min_score is None
        if not -1 <= self.min_score <= 1:
            raise ValueError(f"min_score={min_score} must lie between -1 and 1")
        self.history_path = index.path / HISTORY if history is None else history

    @property
    def description(self) -> str:
        """How much there is, and how it is searched, in a line or two for people."""
        files = sum(not file.reason for file in self.index.files())
        how = "by meaning and words" if self.has_vectors else "by words"
        line = f"{len(self.index):,} passages of {files:,} documents, searched {how}"
        notes = [self.index.notice] if self.index.notice else []
        if not self.index.is_complete:
            notes.append("an indexing is under way, or was interrupted; index again to complete it")
        return "\n".join([line, *notes])

    def find(self, query: str, k: int) -> list[Source]:
        """The best passages that are good enough, best first."""
        if not len(self.index):
            return []
        searcher = self.index.retriever(k)
        assert isinstance(searcher, HybridRetriever | Bm25Index)
        documents = self._present([document for document, _ in searcher.search(query, k)])
        shares = [self._share(query, document.page_content) for document in documents]
        scores = self._cosines(query, documents) if self.has_vectors else shares
        return [
            Source.of(document, score)
            for document, score, share in zip(documents, scores, shares, strict=True)
            if score >= self.min_score or (self._is_default and share >= SURE_SHARE)
        ]

    def _present(self, documents: list[Document]) -> list[Document]:
        """Those that the vectors have too: words are written later, and a kill or another process comes between."""
        store = self.index.vectors
        if store is None:
            return documents
        have = {found.id for found in store.get_by_ids([document.id or "" for document in documents])}
        return [document for document in documents if document.id in have]

    def _cosines(self, query: str, documents: Sequence[Document]) -> list[float]:
        store, embeddings = self.index.vectors, self.index.embeddings
        assert store is not None
        assert embeddings is not None
        found = store.vectors([document.id or "" for document in documents])
        return [float(score) for score in store.metric.scores(np.array(embeddings.embed_query(query)), found)]

    def _share(self, query: str, passage: str) -> float:
        """The share of the query's content words that stand in the passage; rare ones weigh more, unknown ones most."""
        index = self.index.words
        assert index is not None
        asked = dict.fromkeys(words(" ".join(content_words(query)) or query, index.language))
        have = set(words(passage, index.language))
        weights = {term: math.log(1 + len(index) / (0.5 + index.document_frequency(term))) for term in asked}
        total = sum(weights.values())
        return sum(weight for term, weight in weights.items() if term in have) / total if total else 0.0


@dataclass(frozen=True)
class BuildReport:
    """What indexing did, and what could not be read."""

    summary: IndexSummary

    @property
    def failures(self) -> int:
        """Files that could not be read."""
        return len(self.summary.skipped)

    @property
    def lines(self) -> list[str]:
        """For people: each file that was passed over, why meaning is not searched, and the counts."""
        summary = self.summary
        told = [f"left out: {skipped.path} {skipped.reason}" for skipped in summary.skipped]
        if summary.notice:
            told.append(summary.notice)
        counts = {"new": summary.added, "changed": summary.changed, "renamed": summary.renamed,
                  "unchanged": summary.unchanged, "removed": summary.removed, "left out": self.failures}  # fmt: skip
        shown = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        told.append(
            f"{summary.passages:,} passages of {summary.files:,} documents ({shown or 'nothing to index'})"
        )
        return told


def build(documents: Sequence[Path], folder: Path, *, chunk_tokens: int | None = None) -> BuildReport:
    """Index documents into a folder; what is there already and has not changed is left as it is.

    Raises ValueError for documents that do not exist and for a folder that is no index; TimeoutError while another
    process indexes there.
    """
    chunking = None if chunk_tokens is None else ChunkConfig(chunk_tokens, min(20, chunk_tokens // 2))
    index = DocumentIndex(folder, chunking=chunking)
    try:
        return BuildReport(_indexed(index, documents))
    finally:
        index.close()


def open_library(folder: Path, min_score: float | None = None) -> Library:
    """The index in a folder. Raises ValueError where there is none, or a damaged one."""
    if not (folder.expanduser() / RECORDS).is_file():
        remedy = f"make one with python -m apps.rag index DOCS... --index {folder}"
        raise ValueError(f"there is no index at {folder}; {remedy}")
    try:
        return Library(DocumentIndex.open(folder), min_score)
    except sqlite3.Error as error:
        raise ValueError(
            f"the index at {folder} cannot be read ({error}); delete it and index again"
        ) from error


def open_handbook(min_score: float | None = None) -> Library:
    """The shipped handbook's index, in the user's cache folder, one for each copy of this project; built at the first
    start and when the handbook changed. What is damaged there is built again, since nothing is lost."""
    documents = handbook()
    if not documents.is_dir():
        raise ValueError(f"the handbook is not at {documents}; name an index of your own with --index")
    place = hashlib.sha256(str(documents.resolve()).encode()).hexdigest()[:8]
    folder, stamp = cache_folder() / f"handbook-{place}", cache_folder() / f"handbook-{place}.sha256"
    now = _digest(documents)
    try:
        index = DocumentIndex(folder)
        is_current = stamp.is_file() and stamp.read_text(encoding="utf-8") == now and index.is_complete
        can_have_vectors = index.embeddings is not None and index.vectors is None
        if not is_current or can_have_vectors:
            index = _index_handbook(index, documents)
    except (ValueError, sqlite3.Error):
        shutil.rmtree(folder, ignore_errors=True)
        index = _index_handbook(DocumentIndex(folder), documents)
    stamp.write_text(now, encoding="utf-8")
    return Library(index, min_score, cache_folder() / "handbook-history.jsonl")


def _index_handbook(index: DocumentIndex, documents: Path) -> DocumentIndex:
    """The index, brought up to date by us or by another chat that is at it just now."""
    print("indexing the handbook ...", file=sys.stderr)
    end = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            _indexed(index, [documents])
            return index
        except TimeoutError:
            if time.monotonic() > end:
                raise
        if index.is_complete:  # the other one is done
            index.close()
            return DocumentIndex(index.path)


def _digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            total.update(f"\0{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return total.hexdigest()


def _indexed(index: DocumentIndex, documents: Sequence[Path]) -> IndexSummary:
    with _shown_progress() as bar:
        tasks = {
            step: bar.add_task(step, total=None, visible=False) for step in ("reading", "embedding", "saving")
        }

        def show(progress: Progress) -> None:
            bar.update(tasks[progress.step], total=progress.total, completed=progress.done, visible=True)

        return index.index(documents, show)


@contextmanager
def _shown_progress() -> Iterator[Bar]:
    """A progress bar on a terminal's stderr; nothing elsewhere."""
    with Bar(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        yield bar
