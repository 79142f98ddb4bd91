"""Engines that keep rows for later prompts, and what plain decoding writes for those."""

from __future__ import annotations

from functools import cache

import pytest

from core import Completion, Engine, Request, SamplingParams
from core.budget import FixedBudget
from core.packing import Pass
from core.targets.base import Target
from tests.core.models import repetitive, target_of, word_tokenizer

DOCUMENTS = [
    repetitive(40, seed=1),
    repetitive(30, seed=2),
    repetitive(40, seed=1)[:20] + repetitive(25, seed=3),
]
GREEDY = SamplingParams(max_new_tokens=6)
SAMPLED = SamplingParams(temperature=0.9, top_p=0.9, max_new_tokens=6, seed=5)


def engine(family: str = "llama", prefix_rows: int | None = None, **options: object) -> Engine:
    """Small limits, so that short texts meet every case; end tokens would cut them shorter still."""
    target = target_of(family)
    target.eos_token_ids = frozenset()
    return over(target, prefix_rows, **options)


def over(target: Target, prefix_rows: int | None = None, **options: object) -> Engine:
    return Engine(
        target,
        word_tokenizer(),
        "copy",
        budget=FixedBudget(5),
        prefix_rows=prefix_rows,
        **options,  # type: ignore[arg-type]
    )


@cache
def plain(family: str) -> Engine:
    made = engine(family, prefix_rows=0)
    made.budget = FixedBudget(0)
    return made


@cache
def expected(family: str, prompt: tuple[int, ...], params: SamplingParams = GREEDY) -> list[int]:
    """What plain decoding writes for the prompt alone, in a cache that holds nothing else of use."""
    return plain(family).generate([Request(prompt)], params)[0].token_ids


def ask(
    used: Engine, *prompts: list[int], params: SamplingParams = GREEDY, family: str = "llama"
) -> list[Completion]:
    completions = used.generate([Request(prompt) for prompt in prompts], params)
    for prompt, completion in zip(prompts, completions, strict=True):
        assert completion.token_ids == expected(family, tuple(prompt), params)
        assert completion.stats.prompt_tokens == len(prompt)
    return completions


def reused(completions: list[Completion]) -> list[int]:
    return [completion.stats.reused_tokens for completion in completions]


class Readings:
    """Counts the queries of prompt reading and the copies between slots."""

    def __init__(self, target: Target, patched: pytest.MonkeyPatch) -> None:
        self.num_queries = self.num_copies = 0
        read, copy = target.read, target.copy_shared

        def counted_read(batch: Pass) -> None:
            self.num_queries += batch.tokens.numel()
            read(batch)

        def counted_copy(source_slot: int, slot: int, num_tokens: int) -> None:
            self.num_copies += 1
            copy(source_slot, slot, num_tokens)

        patched.setattr(target, "read", counted_read)
        patched.setattr(target, "copy_shared", counted_copy)
