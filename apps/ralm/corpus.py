"""From a folder of documents to a retriever, by way of an index that is kept and brought up to date.

Knows where indexes are kept. Does not know language models.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from apps.places import cache_folder
from retrieval import DocumentIndex

from .retrievers import DenseRetriever, Retriever, SparseRetriever

KINDS = ("auto", "dense", "bm25")


def open_corpus(documents: Path, kind: str, say: Callable[[str], None]) -> Retriever:
    """The retriever over a file or folder of documents, which is indexed now as far as it has changed.

    `kind` is "dense" (vectors), "bm25" (words) or "auto": vectors where there is an embedding model. Raises
    ValueError for an unknown kind, documents that are not there or hold no text, or vectors without a model.
    """
    if kind not in KINDS:
        raise ValueError(f"retriever {kind!r} is unknown; choose one of {', '.join(KINDS)}")
    if not documents.exists():
        raise ValueError(f"there is nothing at {documents}; give a file or folder of documents")
    name = hashlib.sha256(os.fsencode(documents.resolve())).hexdigest()[:16]
    folder = cache_folder() / "ralm" / (f"{name}-words" if kind == "bm25" else name)
    index = DocumentIndex(folder, None if kind == "bm25" else "default")
    summary = index.index([documents])
    say(f"{summary.passages} passages of {summary.files} files in {documents}")
    for skipped in summary.skipped:
        say(f"left out: {skipped.path}: {skipped.reason}")
    if not summary.passages or index.words is None:
        raise ValueError(f"{documents} holds no text that can be read; give txt, md, html, pdf or docx files")
    if index.vectors is not None:
        return DenseRetriever(index.vectors)
    if kind == "dense":
        raise ValueError(f"there is no dense search here ({index.notice}); use bm25")
    if kind == "auto":
        say(index.notice)
    return SparseRetriever(index.words)
