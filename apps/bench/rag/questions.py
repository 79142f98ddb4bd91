"""What is asked, and the documents that the answers are looked up in.

Questions that people asked (SQuAD 2.0, Natural Questions, QED), of the held split that no model here was trained on,
each with its passage among those of all the others. Where the sets are absent: the handbook that ships, and the
questions that its headings are.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from apps.bench.report import say

_MOST_DOCUMENTS = 200


def prepare(data: Path, folder: Path, limit: int, seed: int = 0) -> list[str]:
    """Index the passages into `folder / "index"`; return at most `limit` questions."""
    from apps.rag.config import handbook
    from apps.rag.library import build

    documents = folder / "documents"
    questions = _held(data, documents, limit, seed)
    if not questions:
        say(f"no questions under {data / 'qa'}; asking about the handbook instead")
        documents = handbook()
        questions = _headings(documents)[:limit]
    build([documents], folder / "index")
    return questions


def _held(data: Path, documents: Path, limit: int, seed: int) -> list[str]:
    """Questions with an answer, and their passages as a text file each."""
    from apps.rag.training.qa_sets import load_qa

    found = [d for kind in load_qa(data, held=True).values() for d in kind]
    told = [d for d in found if any(asked.sentence is not None for asked in d.asked)]
    rng = Random(seed)
    kept = rng.sample(told, min(len(told), _MOST_DOCUMENTS))
    documents.mkdir(parents=True, exist_ok=True)
    for number, document in enumerate(kept):
        name = re.sub(r"\W+", " ", document.title).strip()[:60]
        (documents / f"{number:03} {name}.txt").write_text(document.text, encoding="utf-8")
    return [
        rng.choice([asked.question for asked in document.asked if asked.sentence is not None])
        for document in kept[:limit]
    ]


def _headings(documents: Path) -> list[str]:
    """The headings of Markdown files, as people type questions."""
    lines = [
        line for path in sorted(documents.rglob("*.md")) for line in path.read_text("utf-8").splitlines()
    ]
    return [line.lstrip("# ").strip() for line in lines if line.startswith("##")]
