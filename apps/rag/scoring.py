"""Scores of answers and of retrieval, as the field counts them.

Knows strings and ranks. Does not know models. Answers are normalised as SQuAD's evaluation script does
(Rajpurkar et al., arXiv 1606.05250): lower case, no punctuation, no articles, single spaces.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CITATIONS = re.compile(r"\s*\[\d{1,3}\]")


def normalised(text: str) -> str:
    """The text as SQuAD compares it."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def without_citations(answer: str) -> str:
    """The answer without its [n]."""
    return _CITATIONS.sub("", answer).strip()


def exact_match(answer: str, golds: Sequence[str]) -> bool:
    """Whether the answer is one of the gold answers."""
    return normalised(answer) in {normalised(gold) for gold in golds}


def contains(answer: str, golds: Sequence[str]) -> bool:
    """Whether a gold answer stands in the answer, as whole words."""
    said = f" {normalised(answer)} "
    return any(f" {normalised(gold)} " in said for gold in golds if normalised(gold))


def f1(answer: str, golds: Sequence[str]) -> float:
    """Best harmonic mean of word precision and recall against a gold answer."""
    return max((_f1(normalised(answer).split(), normalised(gold).split()) for gold in golds), default=0.0)


def _f1(said: Sequence[str], gold: Sequence[str]) -> float:
    if not said or not gold:
        return float(said == gold)
    common = sum((Counter(said) & Counter(gold)).values())
    return 2 * common / (len(said) + len(gold))


def recall_at(ranks: Sequence[int | None], k: int) -> float:
    """Share of the questions whose gold passage is among the first k (one gold passage is enough)."""
    return sum(rank is not None and rank <= k for rank in ranks) / len(ranks) if ranks else 0.0


def mean_reciprocal_rank(ranks: Sequence[int | None]) -> float:
    """Mean of 1 / rank, 0 where the gold passage was not found."""
    return sum(1 / rank for rank in ranks if rank is not None) / len(ranks) if ranks else 0.0
