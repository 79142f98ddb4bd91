"""How good and how fast: retrieval and answers over a JSONL file of questions.

Knows the file's format and what is counted. Each line holds `question`, `answers` (gold texts; empty where the
documents do not tell), and optionally `gold` (the gold passage's id or text, or a list of them) and `passages` (texts
or {"title", "text"} to answer from instead of searching).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.gold_answers import gold_answers

from . import scoring
from .answering import Answer, Answerer
from .sources import Source

RECALL_RANKS = (1, 3, 5, 10)


@dataclass(frozen=True)
class Item:
    """One line of the file."""

    question: str
    answers: tuple[str, ...]
    gold: tuple[str, ...] = ()
    passages: tuple[Source, ...] | None = None


def read_items(path: Path, limit: int | None = None) -> list[Item]:
    """All questions of a file. Raises ValueError, naming the line, for one that is not in the format."""
    items: list[Item] = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if limit is not None and len(items) >= limit:
                    break
                if line.strip():
                    items.append(_item(line, f"{path}, line {number}"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the questions cannot be read: {error}") from error
    if not items:
        raise ValueError(f'{path} holds no questions; give a JSONL file of {{"question", "answers"}}')
    return items


def _item(line: str, place: str) -> Item:
    try:
        fields = json.loads(line)
        question, answers = fields["question"], fields["answers"]
        gold = fields.get("gold") or ()
        passages = fields.get("passages")
        return Item(
            _string(question),
            gold_answers(answers),
            (gold,) if isinstance(gold, str) else tuple(_string(one) for one in gold),
            None if passages is None else tuple(_passage(one) for one in passages),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f'{place}: not a question ({error!r}); write {{"question": "...", "answers": ["..."]}}'
        ) from error


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _passage(value: Any) -> Source:
    if isinstance(value, str):
        return Source(value)
    return Source(_string(value["text"]), title=value.get("title") or "", id=value.get("id"))


@dataclass
class Scores:
    """Running sums; `as_dict` gives means. Answer scores are over answerable questions only."""

    ranks: list[int | None] = field(default_factory=list)
    exact: list[float] = field(default_factory=list)
    f1: list[float] = field(default_factory=list)
    contained: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    abstained: list[float] = field(default_factory=list)
    search: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    per_token: list[float] = field(default_factory=list)
    forwards: int = 0
    tokens: int = 0

    def add(self, item: Item, answer: Answer) -> None:
        """Count one answered question."""
        sources = answer.question.sources
        if item.gold:
            is_gold = [source.id in item.gold or source.text in item.gold for source in sources]
            self.ranks.append(next((rank for rank, good in enumerate(is_gold, 1) if good), None))
        text = scoring.without_citations(answer.text)
        if item.answers:
            self.exact.append(scoring.exact_match(text, item.answers))
            self.f1.append(scoring.f1(text, item.answers))
            self.contained.append(scoring.contains(text, item.answers))
            self.answered.append(not answer.abstained)
        else:
            self.abstained.append(answer.abstained)
        self._add_speed(answer)

    def _add_speed(self, answer: Answer) -> None:
        self.search.append(answer.question.search_seconds)
        written = answer.usage.get("output_tokens", 0)
        if answer.first_token_seconds is not None and written:
            self.first.append(answer.first_token_seconds)
            if written > 1:
                self.per_token.append((answer.seconds - answer.first_token_seconds) / (written - 1))
        self.forwards += answer.stats.get("target_calls", 0)
        self.tokens += written if "target_calls" in answer.stats else 0

    def as_dict(self) -> dict[str, Any]:
        """All figures; None where nothing was counted."""
        ranks = self.ranks
        recalls = {f"recall@{k}": scoring.recall_at(ranks, k) if ranks else None for k in RECALL_RANKS}
        return {
            "questions": len(self.search),
            **recalls,
            "mrr": scoring.mean_reciprocal_rank(ranks) if ranks else None,
            "exact_match": _mean(self.exact),
            "f1": _mean(self.f1),
            "contains_answer": _mean(self.contained),
            "answered_of_answerable": _mean(self.answered),
            "abstained_of_unanswerable": _mean(self.abstained),
            "search_seconds": _mean(self.search),
            "first_token_seconds": _mean(self.first),
            "seconds_per_token": _mean(self.per_token),
            "tokens_per_forward": self.tokens / self.forwards if self.forwards else None,
        }


def evaluate(answerer: Answerer, items: Sequence[Item]) -> Iterator[tuple[Item, Answer]]:
    """Answer every question on its own: no history, no earlier answers to copy from."""
    for item in items:
        if item.passages is None:
            question = answerer.prepare(item.question)
        else:
            question = answerer.with_sources(item.question, item.question, item.passages)
        yield item, answerer.answer(question)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
