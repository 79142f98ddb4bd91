"""Search by words: a LangChain retriever over BM25, in memory or in a folder; knows no vectors."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import filelock
import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import run_in_executor
from pydantic import Field, PrivateAttr, SkipValidation

from retrieval.ids import content_id, metadata_text, valid_text
from retrieval.storage.lines import PassageLines
from retrieval.storage.metric import Floats, Hits, Metric
from retrieval.storage.sealed import broken, file_sha256, flush_file, read_sealed, write_sealed
from retrieval.storage.terms import Statistics, TermIndex
from retrieval.words import words

FILE = "bm25.json"
FORMAT = 1
ATTEMPTS = 20


class Bm25Index(BaseRetriever):
    """BM25 over passages. With `documents` it is built (and saved where a `path` is given), else opened there.

    A passage without a word of the query is never returned, so fewer than `k` may be. The index does not grow:
    build it anew when passages change (some 20,000 passages a second); saving replaces the old one
    atomically, and whoever has that open reads on in it.

    Args:
        documents: the passages; without an id they get the UUIDv5 of text and metadata, as in `FaissStore`.
        path: the folder.
        k: how many passages; `invoke(query, k=...)` overrides it.
        language: whose stop words go and whose endings are stemmed (a Snowball language, "english" by default);
            None keeps every word. An opened index keeps its own, and its own `k1` and `b`.

    Raises:
        ValueError: nothing to open, or a file there is missing, changed or foreign; names it and the remedy.
        ImportError: the extra `bm25` is not installed.
    """

    documents: SkipValidation[Iterable[Document] | None] = Field(default=None, exclude=True, repr=False)
    path: Path | None = None
    k: int = Field(default=4, ge=1)
    language: str | None = "english"
    k1: float = Field(default=1.5, ge=0)
    b: float = Field(default=0.75, ge=0, le=1)

    _lines: PassageLines = PrivateAttr()
    _terms: TermIndex = PrivateAttr()
    _positions: dict[str, int] = PrivateAttr()
    _ids: list[str] = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        if self.documents is not None:
            self._build(self.documents)
            self.documents = None
            if self.path is not None:
                self.save(self.path)
        elif self.path is not None:
            self._open(self.path)
        else:
            raise ValueError("nothing to search: give documents=..., or path=... of a saved index")

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], path: str | Path | None = None, **kwargs: Any
    ) -> Self:
        """Build from passages, for instance `FaissStore.documents()`."""
        return cls(documents=documents, path=None if path is None else Path(path), **kwargs)

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        metadatas: Iterable[dict[str, Any]] | None = None,
        *,
        ids: Iterable[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Build from texts with metadata and ids, one each or none."""
        texts = list(texts)
        unnamed: list[str | None] = [None] * len(texts)
        rows = zip(texts, metadatas or [{}] * len(texts), ids or unnamed, strict=True)
        documents = [Document(page_content=text, metadata=metadata, id=name) for text, metadata, name in rows]
        return cls(documents=documents, **kwargs)

    def _build(self, documents: Iterable[Document]) -> None:
        rows = {}
        for document in documents:
            text, metadata = valid_text(document.page_content), document.metadata
            metadata_text(metadata)  # raises where it is no JSON
            name = document.id if document.id is not None else content_id(text, metadata)
            rows[name] = (name, text, metadata)
        self._lines = PassageLines.of(rows.values())
        self._ids = list(rows)
        self._positions = {name: i for i, name in enumerate(rows)}
        self._terms = TermIndex.of(
            [words(text, self.language) for _, text, _ in rows.values()], self.k1, self.b
        )

    # The folder

    def save(self, path: str | Path) -> None:
        """Save in a folder: files under a new name, then a manifest that names them renamed into place."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / "write.lock", timeout=60):
            inside = folder / f"bm25-{uuid.uuid4().hex[:12]}"
            inside.mkdir()
            self._lines.write(inside)
            self._terms.write(inside)
            for file in inside.iterdir():
                flush_file(file)
            sums = {file.name: file_sha256(file) for file in sorted(inside.iterdir())}
            about = {"language": self.language, "statistics": asdict(self._terms.statistics)}
            write_sealed(folder / FILE, {"format": FORMAT, "folder": inside.name, "files": sums, **about})
            for old in folder.glob("bm25-*"):
                if old != inside:
                    shutil.rmtree(old, ignore_errors=True)
        self.path = folder

    def _open(self, folder: Path) -> None:
        if not (folder / FILE).exists():
            raise ValueError(f"{folder} has no {FILE}; build the index with documents=... first")
        for _ in range(ATTEMPTS):
            manifest = read_sealed(folder / FILE, FORMAT)
            try:
                return self._load(folder, manifest)
            except (ValueError, FileNotFoundError):
                if (
                    read_sealed(folder / FILE, FORMAT) == manifest
                ):  # else it was replaced while this was reading
                    raise
        raise TimeoutError(f"{folder} changes faster than it can be read; try again later")

    def _load(self, folder: Path, manifest: dict[str, Any]) -> None:
        if not {"folder", "files", "language", "statistics"} <= set(manifest):
            raise broken(folder / FILE, "describes something other than a BM25 index")
        inside = folder / manifest["folder"]
        for name, sha256 in manifest["files"].items():
            if not (inside / name).exists():
                raise broken(inside / name, "is missing")
            if file_sha256(inside / name) != sha256:
                raise broken(inside / name, "is not the file that the manifest describes")
        statistics = Statistics(**manifest["statistics"])
        self.language, self.k1, self.b = manifest["language"], statistics.k1, statistics.b
        self._lines, self._terms = PassageLines.read(inside), TermIndex.read(inside, statistics)
        self._ids = [self._lines[i][0] for i in range(len(self._lines))]
        self._positions = {name: i for i, name in enumerate(self._ids)}

    # Searching

    def __len__(self) -> int:
        """Number of passages."""
        return len(self._ids)

    def __bool__(self) -> bool:
        """An index is an index, also an empty one."""
        return True

    @property
    def ids_by_position(self) -> list[str]:
        return list(self._ids)

    @property
    def statistics(self) -> Statistics:
        return self._terms.statistics

    def document_frequency(self, word: str) -> int:
        """In how many passages a word stands (after stemming); 0 for a stop word."""
        return max(map(self._terms.document_frequency, words(word, self.language)), default=0)

    def search_batch(self, queries: Sequence[str], k: int | None = None) -> Hits:
        """The best passages of each query: `(ids, scores)`, higher is better, equal scores in the order of ids."""
        found = [self._best(query, self.k if k is None else k) for query in queries]
        return Hits([ids for ids, _ in found], [scores for _, scores in found])

    def _best(self, query: str, k: int) -> tuple[list[str], Floats]:
        if k < 1:
            raise ValueError(f"k is {k}; ask for at least one passage")
        scores = self._terms.every_score(words(valid_text(query), self.language))
        matching = np.flatnonzero(scores > 0)
        if len(matching) > k:
            edge = np.partition(scores[matching], -k)[-k]  # all that are as good as the k-th may come in
            matching = matching[scores[matching] >= edge]
        ids = self._ids
        return Metric("ip").best([ids[i] for i in matching], scores[matching], k)

    def scores(self, query: str, ids: Sequence[str]) -> Floats:
        """Scores `[n]` of these passages, to the last bit those of a search; 0 without a word of the query.

        Raises:
            ValueError: an id that is not in the index (`score_texts` takes any text).
        """
        known = self._positions  # asked for once: an attribute of a pydantic model takes microseconds
        if missing := [name for name in ids if name not in known]:
            raise ValueError(f"{missing[0]!r} is not in the index; ask for ids that a search returned")
        positions = np.array([known[name] for name in ids], dtype=np.int64)
        return self._terms.scores(words(valid_text(query), self.language), positions)

    def score_texts(self, query: str, texts: Iterable[str]) -> Floats:
        """Scores `[n]` of any texts by the corpus's statistics; those of the corpus's own agree to rounding."""
        terms = words(valid_text(query), self.language)
        passages = (words(text, self.language) for text in texts)
        return np.array([self._terms.score_of(terms, passage) for passage in passages], dtype=np.float32)

    def search(self, query: str, k: int | None = None) -> list[tuple[Document, float]]:
        """The best passages with their scores."""
        ids, scores = self._best(query, self.k if k is None else k)
        return list(zip(self.get_by_ids(ids), map(float, scores), strict=True))

    def get_by_ids(self, ids: Sequence[str]) -> list[Document]:
        """The passages of these ids in their order, without those that are not there and without repeats."""
        rows = [self._lines[self._positions[name]] for name in dict.fromkeys(ids) if name in self._positions]
        return [Document(id=name, page_content=text, metadata=metadata) for name, text, metadata in rows]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return [document for document, _ in self.search(query, k)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return [document for document, _ in await run_in_executor(None, self.search, query, k)]
