"""Scores of answers as SQuAD's evaluation script counts them (Rajpurkar et al. 1606.05250). Knows strings only."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """Lower case, no punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golds: Sequence[str]) -> bool:
    """Whether the answer is one of the gold answers."""
    return normalised(answer) in {normalised(gold) for gold in golds}


def f1(answer: str, golds: Sequence[str]) -> float:
    """Best harmonic mean of word precision and recall against a gold answer; 0 without any."""
    return max((_f1(normalised(answer).split(), normalised(gold).split()) for gold in golds), default=0.0)


def _f1(said: Sequence[str], gold: Sequence[str]) -> float:
    common = sum((Counter(said) & Counter(gold)).values())
    return 2 * common / (len(said) + len(gold)) if common else 0.0
