"""Verification rules in the loop, their statistics, and the guard against near ties."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from core import Completion, Engine, Request, SamplingParams
from core.budget import FixedBudget
from core.packing import Pass
from core.targets.base import PassOutput
from tests.core.engines import KINDS, PROMPT, engine, tokens_of, varied
from tests.core.models import repetitive, target_of, word_tokenizer
from tests.core.scripted import Scripted


@pytest.mark.parametrize("kind", KINDS)
def test_speculative_sampling_at_temperature_zero_writes_the_greedy_tokens(kind: str) -> None:
    asked = [Request(repetitive(9 + i, seed=i), prediction=repetitive(30, seed=i)) for i in range(4)]
    params = SamplingParams(max_new_tokens=25)
    expected = tokens_of(engine(KINDS[kind], "none").generate(asked, params))
    rule = engine(KINDS[kind], verification="speculative_sampling")
    assert tokens_of(rule.generate(asked, params)) == expected


@pytest.mark.parametrize("verification", ["exact", "speculative_sampling", "typical", "top_beta"])
def test_every_rule_runs_and_keeps_its_books(verification: str) -> None:
    asked = varied(5)
    used = engine("llama", verification=verification)
    completions = used.generate(asked)
    for completion, request in zip(completions, asked, strict=True):
        stats = completion.stats
        assert stats.emitted == len(completion.token_ids) <= request.params.max_new_tokens
        assert 1 <= stats.target_calls <= stats.emitted
        assert 0 <= stats.accepted <= min(stats.drafted, stats.emitted)
        assert stats.tokens_per_call == stats.emitted / stats.target_calls
    for name in ("drafted", "accepted", "emitted"):
        assert getattr(used.stats, name) == sum(getattr(c.stats, name) for c in completions)
    assert max(c.stats.target_calls for c in completions) <= used.stats.target_calls
    seconds = used.stats.seconds
    assert seconds.total >= seconds.forward > 0


def test_plain_decoding_drafts_nothing() -> None:
    (completion,) = engine("llama", "none").generate([Request(PROMPT)], SamplingParams(max_new_tokens=9))
    stats = completion.stats
    assert (stats.drafted, stats.accepted, stats.target_calls) == (0, 0, len(completion.token_ids))


def jittery(used: Engine) -> Engine:
    """Passes over more than one token or row come out a little different, as on a real device."""
    forward = used.target.forward
    generator = torch.Generator().manual_seed(5)

    def perturbed(batch: Pass, *, need_hidden: bool = False) -> PassOutput:
        output = forward(batch, need_hidden=need_hidden)
        if batch.tokens.numel() == 1:
            return output
        noise = torch.randn(output.logits.shape, generator=generator, dtype=torch.float64) * 0.03
        return dataclasses.replace(output, logits=output.logits + noise.clamp(-0.09, 0.09))

    used.target.forward = perturbed
    return used


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("kind", KINDS)
def test_the_near_tie_guard_undoes_what_rounding_did(kind: str, temperature: float) -> None:
    asked = [
        Request(
            repetitive(6 + 3 * i, seed=i),
            prediction=repetitive(30, seed=i),
            params=SamplingParams(temperature=temperature, seed=i, max_new_tokens=60),
        )
        for i in range(6)
    ]
    plain = engine(KINDS[kind], "none")
    plain.target.eos_token_ids = frozenset()
    expected = [plain.generate([request])[0] for request in asked]
    truth = {tuple(r.prompt): c.token_ids for r, c in zip(asked, expected, strict=True)}

    def run(exact: bool) -> tuple[Engine, list[Completion]]:
        target = target_of(KINDS[kind])
        target.eos_token_ids = frozenset()
        oracle = Scripted(truth)
        used = Engine(target, word_tokenizer(), oracle, budget=FixedBudget(9), exact=exact, near_tie_gap=0.19)
        return used, jittery(used).generate(asked)

    assert tokens_of(run(exact=False)[1]) != tokens_of(expected), "the jitter is too small to matter"
    guarded, completions = run(exact=True)
    assert tokens_of(completions) == tokens_of(expected)
    near_ties = sum(c.stats.near_ties for c in completions)
    changes = sum(c.stats.near_tie_changes for c in completions)
    assert 0 < changes < near_ties < guarded.stats.emitted
    assert (guarded.stats.near_ties, guarded.stats.near_tie_changes) == (near_ties, changes)
    for completion in completions:
        assert completion.stats.emitted == len(completion.token_ids)
        assert completion.stats.target_calls <= completion.stats.emitted
