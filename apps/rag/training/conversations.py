"""Conversations over numbered passages: which are read, what is asked, what is quoted, and when nothing tells.

Knows documents and questions. Does not know tokens: a caller says when a conversation is long enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from apps.rag.prompts import ABSTENTION, Passage, quoted

from .documents import SHARES, Asked, Document, is_quotable
from .questions import content_stems, make_question

# Share of the questions that are taken whose passage is there and does not tell. Half of one set is of that kind: with
# all of them a model learns to be silent before it learns to choose.
_IMPOSSIBLE = 0.1
QA_SHARES = {"squad2_half": 0.42, "nq_oracle": 0.27, "qed_dev": 0.24}


@dataclass(frozen=True)
class Turn:
    """A question and its whole answer; `number` is the cited passage, 0 where none tells."""

    question: str
    answer: str
    number: int = 0
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shape:
    """How many passages a conversation reads (a range), and of how many sentences each at most."""

    passages: tuple[int, int]
    sentences: int


class Library:
    """Documents by kind and questions by set, drawn for one conversation at a time."""

    def __init__(
        self,
        documents: dict[str, list[Document]],
        asked: dict[str, list[Document]],
        real_share: float,
        silent_share: float = 0.25,
    ) -> None:
        if not documents and not asked:
            raise ValueError("there is nothing to ask about: neither passages nor questions were found")
        self.made, self.asked = documents, asked
        self.real_share = real_share if documents else 1.0
        self.silent_share = silent_share
        self.groups: dict[str, list[Document]] = {}
        for kind in (*documents.values(), *asked.values()):
            for document in kind:
                self.groups.setdefault(document.group, []).append(document)

    def _draw_from(self, sets: dict[str, list[Document]], shares: dict[str, float], rng: Random) -> Document:
        names = list(sets)
        name = rng.choices(names, [shares.get(n, 0.07) for n in names])[0]
        return rng.choice(sets[name])

    def draw(self, rng: Random, real: bool) -> Document:
        """One document, from the asked ones or from the rest."""
        if real and self.asked:
            return self._draw_from(self.asked, QA_SHARES, rng)
        return self._draw_from(self.made or self.asked, SHARES, rng)

    def several(self, rng: Random, count: int, real: bool) -> list[Document]:
        """Documents for one conversation; often some are of one group, as a retriever would have it."""
        chosen = [self.draw(rng, real)]
        alike = rng.random() < 0.5
        # A small library may not hold so many that differ.
        for _ in range(10 * count):
            if len(chosen) == count:
                break
            group = self.groups[chosen[0].group]
            candidate = (
                rng.choice(group) if alike and rng.random() < 0.6 and len(group) > 2 else self.draw(rng, real)
            )
            if all(candidate.sentences != d.sentences for d in chosen):
                chosen.append(candidate)
            elif len(group) <= count:
                alike = False
        rng.shuffle(chosen)
        return chosen


def shortened(document: Document, most: int, rng: Random) -> Document:
    """A window of at most so many sentences, around something that was asked where anything was."""
    count = len(document.sentences)
    if count <= most:
        return document
    places = [a.sentence for a in document.asked if a.sentence is not None]
    size = rng.randint(max(1, most - 1), most)
    around = rng.choice(places) if places else rng.randrange(count)
    low = min(max(0, around - rng.randrange(size)), count - size)
    asked = tuple(
        replace(a, sentence=None if a.sentence is None else a.sentence - low)
        for a in document.asked
        if a.sentence is None or low <= a.sentence < low + size
    )
    return replace(document, sentences=document.sentences[low : low + size], asked=asked)


def ask(document: Document, rng: Random) -> Iterator[Asked]:
    """Questions about a document in random order: those that people asked, else made ones, a sentence once."""
    if document.asked:
        order = rng.sample(document.asked, len(document.asked))
    else:
        places = [k for k, s in enumerate(document.sentences) if is_quotable(s)]
        rng.shuffle(places)
        order = [Asked("", k) for k in places]
    seen: set[int] = set()
    for asked in order:
        if asked.sentence in seen:
            continue
        if asked.sentence is not None:
            seen.add(asked.sentence)
        yield asked


def share_found(question: str, sentence: str) -> float:
    """Which share of a question's content words a sentence holds (1 where it has none)."""
    stems = content_stems(question)
    return len(stems & content_stems(sentence)) / len(stems) if stems else 1.0


class Conversation:
    """Passages and an endless supply of turns about them; the same sentence is never quoted twice."""

    def __init__(self, library: Library, shape: Shape, rng: Random, real: bool) -> None:
        self.library, self.rng, self.real = library, rng, real
        drawn = library.several(rng, rng.randint(*shape.passages), real)
        self.documents = [shortened(d, shape.sentences, rng) for d in drawn]
        self.passages = [
            Passage(d.title if rng.random() < 0.85 else "", _laid_out(d.sentences, rng))
            for d in self.documents
        ]
        self.stems = [content_stems(s) for d in self.documents for s in d.sentences]

    def turns(self) -> Iterator[Turn]:
        """Turns about the passages in random order, and questions that they do not answer among them."""
        pending = [(number, ask(d, self.rng)) for number, d in enumerate(self.documents, 1)]
        while pending:
            if self.rng.random() < self.library.silent_share:
                turn = self._silent()
            else:
                slot = self.rng.randrange(len(pending))
                asked = next(pending[slot][1], None)
                if asked is None:
                    pending.pop(slot)
                    continue
                turn = self._turn(asked, pending[slot][0])
            if turn is not None:
                yield turn

    def _turn(self, asked: Asked, number: int) -> Turn | None:
        if asked.sentence is None:
            return Turn(asked.question, ABSTENTION) if self.rng.random() < _IMPOSSIBLE else None
        sentence = self.documents[number - 1].sentences[asked.sentence]
        question = asked.question or self._made(sentence)
        if not question or len(sentence) > 400:
            return None
        return Turn(question, quoted(sentence, number), number, asked.answers)

    def _made(self, sentence: str) -> str:
        """A made question that no other sentence of the passages answers better."""
        own = content_stems(sentence)
        for _ in range(4):
            question = make_question(sentence, self.rng)
            stems = content_stems(question)
            found = len(stems & own)
            if found and all(len(stems & other) < found for other in self.stems if other != own):
                return question
        return ""

    def _silent(self) -> Turn | None:
        """A question about a document that is not among the passages."""
        other = self.library.draw(self.rng, self.real)
        asked = next((a for a in ask(other, self.rng) if a.sentence is not None), None)
        if asked is None or asked.sentence is None or other.text in {d.text for d in self.documents}:
            return None
        question = asked.question or make_question(other.sentences[asked.sentence], self.rng)
        stems = content_stems(question)
        if not stems or any(len(stems & own) > 0.4 * len(stems) for own in self.stems):
            return None
        return Turn(question, ABSTENTION)


def _laid_out(sentences: Sequence[str], rng: Random) -> str:
    """The sentences as a paragraph, now and then as two or as a list."""
    style = rng.random()
    if style < 0.06:
        return "\n".join(f"- {s}" for s in sentences)
    if style < 0.12:
        return "\n\n".join(sentences)
    return " ".join(sentences)
