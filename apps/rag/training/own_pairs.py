"""A user's own questions: JSONL of `{"question", "passages": [{"title", "text"}], "answer"}`."""

from __future__ import annotations

import json
from pathlib import Path

from .documents import Asked, Document, split_sentences


def read_pairs(path: Path) -> list[Document]:
    """Documents with the questions that a file asks about them; ValueError where an answer is nowhere.

    `answer` is a sentence, or a part of one, of some passage (the first passage that holds it is the one that
    tells), or empty where the passages do not tell.
    """
    found: list[Document] = []
    for line, row in enumerate(path.read_text("utf-8").splitlines(), 1):
        if row.strip():
            found += _documents(json.loads(row), f"{path.name}:{line}")
    if not found:
        raise ValueError(
            f'{path} holds no questions: {{"question", "passages", "answer"}} a line is expected'
        )
    return found


def _documents(row: dict, place: str) -> list[Document]:
    question, answer = str(row["question"]), str(row.get("answer") or "").strip()
    documents = []
    told = False
    for passage in row["passages"]:
        sentences = tuple(split_sentences(" ".join(str(passage["text"]).split())))
        telling = next((k for k, s in enumerate(sentences) if answer and answer in s), None)
        asked: tuple[Asked, ...] = ()
        if not told and (telling is not None or not answer):
            asked, told = (Asked(question, telling, (answer,) if answer else ()),), True
        documents.append(Document(place, str(passage.get("title", "")), sentences, asked))
    if not told:
        raise ValueError(f"{place}: no passage holds the answer {answer!r}; quote it as it stands there")
    return documents
