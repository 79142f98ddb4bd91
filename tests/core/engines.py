"""Small engines over random models, and requests for them."""

from __future__ import annotations

from core import Completion, Engine, Request, SamplingParams
from core.budget import FixedBudget
from tests.core.models import repetitive, target_of, word_tokenizer

KINDS = {"decoder-only": "llama-stock", "encoder-decoder": "t5", "lean decoder-only": "llama", "lean": "bart"}
PROMPT = repetitive(12, seed=0)


def engine(family: str = "llama", drafter: str = "copy", **options: object) -> Engine:
    return Engine(target_of(family), word_tokenizer(), drafter, budget=FixedBudget(9), **options)


def tokens_of(completions: list[Completion]) -> list[list[int]]:
    return [completion.token_ids for completion in completions]


def varied(count: int) -> list[Request]:
    return [
        Request(
            repetitive(5 + 7 * i % 23, seed=i),
            params=SamplingParams(temperature=0.7 * (i % 2), seed=i, max_new_tokens=10 + 3 * i),
        )
        for i in range(count)
    ]
