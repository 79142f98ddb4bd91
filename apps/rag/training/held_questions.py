"""The test of the chat model: questions of the held split, each with five passages, some without the one that tells.

Knows documents and words. Does not know models.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import log
from pathlib import Path
from random import Random

from apps.rag.prompts import Passage
from apps.rag.scoring import contains

from .documents import Asked, Document
from .qa_sets import load_qa
from .questions import content_stems

NUM_PASSAGES = 5
# Four of five passages are long; a prompt must leave room for the answer.
_MOST_CHARACTERS = 900


@dataclass(frozen=True)
class HeldQuestion:
    """A question with its passages; `gold` is the number of the telling one, 0 where none tells.

    `kind` is `answerable`, `removed` (its passage was taken away), or `impossible` (people wrote it so that its own
    passage, which is there, does not tell).
    """

    question: str
    passages: tuple[Passage, ...]
    gold: int
    answers: tuple[str, ...]
    kind: str


class _Pool:
    """Passages to set beside the gold one: the nearest by shared words, and random ones."""

    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents
        self.stems = [content_stems(d.text) for d in documents]
        counts = Counter(stem for stems in self.stems for stem in stems)
        self.weight = {stem: log(len(documents) / count) for stem, count in counts.items()}

    def nearest(self, asked: Asked, banned: Document) -> list[Document]:
        """Passages by the weight of the words that they share with a question; none holds an answer."""
        wanted = content_stems(asked.question)
        scores = [sum(self.weight[s] for s in wanted & stems) for stems in self.stems]
        order = sorted(range(len(scores)), key=lambda k: -scores[k])
        return [d for k in order[:40] if self.fits(d := self.documents[k], asked, banned)]

    def fits(self, document: Document, asked: Asked, banned: Document) -> bool:
        """Whether a passage may stand beside the gold one."""
        if document.text == banned.text or len(document.text) > _MOST_CHARACTERS:
            return False
        return not (asked.answers and contains(document.text, asked.answers))

    def beside(self, asked: Asked, banned: Document, count: int, rng: Random) -> list[Document]:
        """Half the nearest, half random."""
        chosen = self.nearest(asked, banned)[: (count + 1) // 2]
        while len(chosen) < count:
            document = rng.choice(self.documents)
            if document not in chosen and self.fits(document, asked, banned):
                chosen.append(document)
        return chosen


def _window(document: Document, asked: Asked) -> Document:
    """The sentences around the telling one, where a passage is too long."""
    sentences = list(document.sentences)
    low, high = 0, len(sentences)
    place = asked.sentence or 0
    while sum(map(len, sentences[low:high])) > _MOST_CHARACTERS and high - low > 1:
        low, high = (low + 1, high) if place - low > high - 1 - place else (low, high - 1)
    return Document(document.group, document.title, document.sentences[low:high])


def _question(document: Document, asked: Asked, kind: str, pool: _Pool, rng: Random) -> HeldQuestion:
    beside = pool.beside(asked, document, NUM_PASSAGES - (kind != "removed"), rng)
    own = [] if kind == "removed" else [_window(document, asked)]
    placed = [*beside, *own]
    rng.shuffle(placed)
    gold = placed.index(own[0]) + 1 if kind == "answerable" else 0
    passages = tuple(Passage(d.title, d.text) for d in placed)
    return HeldQuestion(asked.question, passages, gold, asked.answers, kind)


def held_questions(data: Path, count: int, seed: int = 0) -> list[HeldQuestion]:
    """Questions of the held split: half answerable, a quarter with their passage removed, a quarter impossible."""
    rng = Random(seed)
    sets = load_qa(data, held=True)
    documents = [d for found in sets.values() for d in found]
    if not documents:
        raise ValueError(
            f"no questions of the held split under {data / 'qa'}: give the data folder with --data"
        )
    pool = _Pool(documents)
    # CLAPnq has long answers only, so a short answer cannot be looked for in the quoted sentence.
    short = [d for name, found in sets.items() if not name.startswith("clapnq") for d in found]
    told = [(d, a) for d in short for a in d.asked if a.sentence is not None]
    silent = [(d, a) for d in documents for a in d.asked if a.sentence is None]
    drawn = rng.sample(told, min(len(told), 3 * count // 4))
    split = len(drawn) * 2 // 3
    out = [_question(d, a, "answerable", pool, rng) for d, a in drawn[:split]]
    out += [_question(d, a, "removed", pool, rng) for d, a in drawn[split:]]
    out += [
        _question(d, a, "impossible", pool, rng) for d, a in rng.sample(silent, min(len(silent), count // 4))
    ]
    return out
