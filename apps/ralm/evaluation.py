"""Questions from a JSONL file, answered plainly and speculatively: scores, seconds, and whether they agree.

Knows the file's format and what is counted. Each line holds `question` and `answers` (gold texts).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.gold_answers import gold_answers
from core import SamplingParams

from .retrieval_lm import RetrievalLM
from .scoring import exact_match, f1

TEMPLATE = "Question: {question}\nAnswer:"


@dataclass(frozen=True)
class Item:
    """One line of the file."""

    question: str
    answers: tuple[str, ...]


def read_items(path: Path, limit: int | None = None) -> list[Item]:
    """The first questions of a file. Raises ValueError, naming the line, for one that is not in the format."""
    try:
        # Not splitlines: a JSON text may hold other line separators as they are.
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the questions cannot be read: {error}") from error
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()][:limit]
    if not numbered:
        raise ValueError(f'{path} holds no questions; give a JSONL file of {{"question", "answers"}}')
    return [_item(line, f"{path}, line {number}") for number, line in numbered]


def _item(line: str, place: str) -> Item:
    try:
        fields = json.loads(line)
        question, answers = fields["question"], gold_answers(fields["answers"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f'{place} is no JSON object with "question" and "answers": {error}') from error
    if not isinstance(question, str):
        raise ValueError(f"{place}: question must be a string")
    return Item(question, answers)


@dataclass
class Scores:
    """Sums over questions."""

    questions: int = 0
    identical: int = 0
    exact: int = 0
    f1: float = 0.0
    tokens: int = 0
    plain_seconds: float = 0.0
    seconds: float = 0.0
    retrievals: int = 0
    calls: int = 0
    guesses: int = 0
    hits: int = 0
    strides: list[int] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Means and ratios."""
        n = max(self.questions, 1)
        return {
            "questions": self.questions,
            "same_tokens_as_sequential": self.identical / n,
            "exact_match": self.exact / n,
            "f1": self.f1 / n,
            "tokens": self.tokens,
            "sequential_seconds": self.plain_seconds,
            "speculative_seconds": self.seconds,
            "speedup": self.plain_seconds / self.seconds if self.seconds else None,
            "hit_rate": self.hits / self.guesses if self.guesses else None,
            "retriever_calls_saved": 1 - self.calls / self.retrievals if self.retrievals else None,
            "mean_stride": sum(self.strides) / len(self.strides) if self.strides else None,
        }


def evaluate(
    plain: RetrievalLM, ours: RetrievalLM, items: Sequence[Item], params: SamplingParams, scores: Scores
) -> Iterator[Item]:
    """Answer every question in both modes and count; each is yielded when it is done."""
    for item in items:
        prompt = TEMPLATE.format(question=item.question)
        started = time.perf_counter()
        (expected,) = plain.generate([prompt], params)
        between = time.perf_counter()
        (answer,) = ours.generate([prompt], params)
        scores.seconds += time.perf_counter() - between
        scores.plain_seconds += between - started
        scores.questions += 1
        scores.identical += answer.token_ids == expected.token_ids
        scores.exact += exact_match(answer.text, item.answers)
        scores.f1 += f1(answer.text, item.answers)
        scores.tokens += len(answer.token_ids)
        for name in ("retrievals", "calls", "guesses", "hits", "strides"):
            setattr(scores, name, getattr(scores, name) + getattr(answer.stats, name))
        yield item
