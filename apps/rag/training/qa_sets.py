"""Questions that people asked, with their passages: SQuAD 2.0, Natural Questions, QED, CLAPnq.

The held split is made by document: a title whose hash falls on one in eight is never trained on, in any set.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apps.rag.scoring import contains

from .documents import Asked, Document, split_sentences

HELD_SPLIT = "qa-held-8"


def is_held(title: str) -> bool:
    """Whether a document belongs to the held split `qa-held-8`."""
    plain = re.sub(r"\W+", " ", title).strip().lower()
    return hashlib.blake2b(plain.encode(), digest_size=4).digest()[0] % 8 == 0


def untreebank(text: str) -> str:
    """Text with the spaces of treebank tokens taken out: `( a , b ) 's` becomes `(a, b)'s`."""
    text = re.sub(r"\s+([,.;:!?%)\]]|'s\b|n't\b|'(?:re|ve|ll|d|m)\b|'')", r"\1", text)
    text = re.sub(r"([(\[]|``)\s+", r"\1", text).replace("``", '"').replace("''", '"')
    return " ".join(re.sub(r"(?<=\w) - (?=\w)|(?<=\d) – (?=\d)", "-", text).split())


def _plain(text: str) -> str:
    return " ".join(re.sub(r"\W+", " ", text.lower()).split())


def _overlap(question: str, sentence: str) -> int:
    return len(set(_plain(question).split()) & set(_plain(sentence).split()))


def _telling(sentences: list[str], question: str, answers: tuple[str, ...]) -> int | None:
    """The sentence that holds an answer; of several, the one most like the question."""
    holding = [k for k, s in enumerate(sentences) if contains(s, answers)]
    return max(holding, key=lambda k: _overlap(question, sentences[k]), default=None)


def _squad(path: Path) -> Iterator[Document]:
    for article in json.loads(path.read_text("utf-8"))["data"]:
        title = article["title"].replace("_", " ")
        for paragraph in article["paragraphs"]:
            sentences = split_sentences(" ".join(paragraph["context"].split()))
            asked = []
            for qa in paragraph["qas"]:
                answers = tuple(dict.fromkeys(a["text"] for a in qa["answers"]))
                place = _telling(sentences, qa["question"], answers)
                if qa["is_impossible"] or place is not None:
                    asked.append(Asked(qa["question"], place, answers))
            yield Document(title, title, tuple(sentences), tuple(asked))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    reader = gzip.open if path.suffix == ".gz" else open
    with reader(path, "rt", encoding="utf-8") as rows:
        for row in rows:
            yield json.loads(row)


def _one(title: str, text: str, question: str, answers: tuple[str, ...]) -> Iterator[Document]:
    sentences = split_sentences(" ".join(text.split()))
    place = _telling(sentences, question, answers)
    if place is not None:
        yield Document(title, title, tuple(sentences), (Asked(question, place, answers),))


def _nq(path: Path) -> Iterator[Document]:
    for row in _rows(path):
        gold = row["nq_annotated_gold"]
        answers = tuple(gold["short_answers"]) or tuple(row["answers"])
        yield from _one(gold["title"], gold["chunked_long_answer"], row["question"], answers)


def _qed(path: Path) -> Iterator[Document]:
    for row in _rows(path):
        answers = tuple(untreebank(a["string"]) for group in row["original_nq_answers"] for a in group)
        yield from _one(row["title_text"], untreebank(row["paragraph_text"]), row["question_text"], answers)


def _clapnq(path: Path) -> Iterator[Document]:
    for row in _rows(path):
        passage = row["passages"][0]
        sentences = [untreebank(s) for s in passage["sentences"] if s.strip()]
        chosen = [untreebank(s) for s in row["output"][0]["selected_sentences"]]
        places = [k for k, s in enumerate(sentences) if s in chosen]
        if bool(places) == bool(chosen):
            # The annotators chose several; the one most like the question is quoted.
            place = max(places, key=lambda k: _overlap(row["input"], sentences[k]), default=None)
            answers = tuple(sentences[k] for k in places)
            yield Document(
                passage["title"], passage["title"], tuple(sentences), (Asked(row["input"], place, answers),)
            )


_READERS = {
    "squad2_half.json": _squad,
    "nq_oracle.jsonl.gz": _nq,
    "qed_dev.jsonl.gz": _qed,
    "clapnq_answerable.jsonl": _clapnq,
    "clapnq_unanswerable.jsonl": _clapnq,
}


def load_qa(data: Path, held: bool) -> dict[str, list[Document]]:
    """The passages with questions by set, of the held split or of the rest; sets that are absent are left out."""
    found: dict[str, list[Document]] = {}
    for name, reader in _READERS.items():
        path = data / "qa" / name
        if path.exists():
            found[name.split(".")[0]] = [d for d in reader(path) if d.asked and is_held(d.title) == held]
    return {name: documents for name, documents in found.items() if documents}
