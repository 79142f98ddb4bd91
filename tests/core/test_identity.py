"""One test decides everything: whatever drafter runs, the tokens are those of plain decoding."""

from __future__ import annotations

import dataclasses
import random
from functools import cache

import pytest
import torch

from core import Completion, Engine, Request, SamplingParams, drafters
from core.budget import FixedBudget
from core.drafters.base import Drafter
from tests.core.models import FAMILIES, build, repetitive, target_of, word_tokenizer
from tests.core.scripted import Scripted
from tests.drafters.draft_models import options_for

KINDS = {"decoder-only": "llama-stock", "encoder-decoder": "t5", "lean decoder-only": "llama", "lean": "bart"}
GREEDY = SamplingParams(max_new_tokens=40)
SAMPLED = SamplingParams(temperature=0.8, top_p=0.9, max_new_tokens=40)
SAMPLING = {"greedy": GREEDY, "sampled": SAMPLED}
LENGTHS = (23, 5, 1, 40, 12)


def requests(params: SamplingParams, count: int) -> list[Request]:
    """Ragged rows, each with a seed, a length limit, a source and a prediction of its own."""
    made = []
    for i, length in enumerate(LENGTHS[:count]):
        prompt = repetitive(length, seed=i)
        own = dataclasses.replace(params, seed=i, max_new_tokens=params.max_new_tokens - 7 * i)
        sources = (repetitive(30, seed=i), repetitive(20, seed=i + 1))
        made.append(Request(prompt, sources=sources, prediction=prompt[::-1] + prompt, params=own))
    return made


def engine(family: str, drafter: str | Drafter, dtype: torch.dtype = torch.float64) -> Engine:
    target = target_of(family, dtype)
    options = options_for(drafter, target) if isinstance(drafter, str) else None
    made = Engine(target, word_tokenizer(), drafter, drafter_options=options, max_rows=5)
    if drafter != "none":
        made.budget = FixedBudget(9)
    return made


def alone(family: str, asked: list[Request]) -> list[Completion]:
    """Plain decoding, each request in a batch of its own."""
    plain = engine(family, "none")
    return [plain.generate([request])[0] for request in asked]


def outcome(completions: list[Completion]) -> list[tuple[list[int], str, str]]:
    return [(c.token_ids, c.finish_reason, c.text) for c in completions]


@cache
def plain_outcome(family: str, sampling: str) -> list[tuple[list[int], str, str]]:
    """What all drafters are held against, decoded once."""
    return outcome(alone(family, requests(SAMPLING[sampling], 5)))


def run_late(late: Engine, asked: list[Request], rng: random.Random) -> list[Completion]:
    """Rows join one after another while others run; strangers come too and are cancelled half-way."""
    rows, strangers = [], []
    for i, request in enumerate(asked):
        rows.append(late.add(request))
        strangers.append(late.add(dataclasses.replace(request, prompt=repetitive(7 + i, seed=50 + i))))
        for _ in range(rng.randint(0, 3)):
            late.step()
        if rng.random() < 0.7:
            late.cancel(strangers.pop(rng.randrange(len(strangers))))
    for stranger in strangers:
        late.step()
        late.cancel(stranger)
    while any(row.finish_reason is None for row in rows):
        late.step()
    assert not late.running
    return [late.completion(row) for row in rows]


@pytest.mark.parametrize("drafter", drafters.names())
@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("kind", KINDS)
def test_every_drafter_writes_the_tokens_of_plain_decoding(kind: str, sampling: str, drafter: str) -> None:
    asked = requests(SAMPLING[sampling], 5)
    expected = plain_outcome(KINDS[kind], sampling)
    drafted = engine(KINDS[kind], drafter)
    assert outcome(drafted.generate(asked[:1])) == expected[:1]
    assert outcome(drafted.generate(asked)) == expected
    assert outcome(run_late(drafted, asked, random.Random(3))) == expected


@pytest.mark.parametrize("drafter", drafters.names())
@pytest.mark.parametrize("kind", KINDS)
def test_every_drafter_is_exact_under_the_measured_budget(kind: str, drafter: str) -> None:
    asked = requests(SAMPLED, 5)
    target = target_of(KINDS[kind])
    options = options_for(drafter, target)
    measured = Engine(target, word_tokenizer(), drafter, drafter_options=options, max_rows=2)
    assert outcome(measured.generate(asked)) == plain_outcome(KINDS[kind], "sampled")


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("family", FAMILIES)
def test_random_trees_around_the_truth_never_change_a_token(family: str, sampling: str) -> None:
    asked = requests(SAMPLING[sampling], 5)
    plain = alone(family, asked)
    truth = {tuple(r.prompt): c.token_ids for r, c in zip(asked, plain, strict=True)}
    truth |= {tuple(repetitive(7 + i, seed=50 + i)): [] for i in range(5)}
    oracle = Scripted(truth)
    drafted = engine(family, oracle)
    for seed in range(2):
        assert outcome(drafted.generate(asked)) == outcome(plain)
        assert outcome(run_late(drafted, asked, random.Random(seed))) == outcome(plain)
    assert outcome(drafted.generate(asked[:1])) == outcome(plain[:1])
    assert not oracle.alive
    assert oracle.deepest >= 3
    assert oracle.num_branches > 10
    assert drafted.stats.accepted > 50
    assert drafted.stats.target_calls < drafted.stats.emitted


@pytest.mark.parametrize("family", FAMILIES)
def test_plain_greedy_decoding_equals_generate(family: str) -> None:
    stock = build(family)
    ours = engine(family, "none")
    said: set[int] = set()
    for prompt in (repetitive(23, seed=0), repetitive(5, seed=1), repetitive(40, seed=3)):
        written = stock.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=40)[0].tolist()
        start = 1 if stock.config.is_encoder_decoder else len(prompt)
        (completion,) = ours.generate([Request(prompt)], GREEDY)
        assert completion.token_ids == written[start:]
        said.update(completion.token_ids)
    assert len(said) > 4, "the model says too little to tell anything"


@pytest.mark.parametrize("kind", KINDS)
def test_an_end_token_in_the_middle_of_an_accepted_path_ends_the_text(kind: str) -> None:
    prompt = repetitive(23, seed=0)
    (long,) = engine(KINDS[kind], "none").generate([Request(prompt)], GREEDY)
    end = long.token_ids[6]
    oracle = Scripted({tuple(prompt): long.token_ids}, size=24)
    drafted = engine(KINDS[kind], oracle)
    drafted.budget = FixedBudget(24)
    drafted.target.eos_token_ids = frozenset({end})
    for _ in range(5):
        (short,) = drafted.generate([Request(prompt)], GREEDY)
        assert short.token_ids == long.token_ids[: long.token_ids.index(end) + 1]
        assert short.finish_reason == "stop"
        assert short.stats.emitted == len(short.token_ids)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_the_length_limit_holds_in_the_middle_of_a_tree(kind: str, limit: int) -> None:
    prompt = repetitive(23, seed=0)
    (long,) = engine(KINDS[kind], "none").generate([Request(prompt)], GREEDY)
    drafted = engine(KINDS[kind], Scripted({tuple(prompt): long.token_ids}, size=24))
    drafted.budget = FixedBudget(24)
    for _ in range(3):
        (short,) = drafted.generate([Request(prompt)], SamplingParams(max_new_tokens=limit))
        assert short.token_ids == long.token_ids[:limit]
        assert short.finish_reason == "length"


def test_the_copy_drafter_accepts_what_it_copies() -> None:
    for family in KINDS.values():
        drafted = engine(family, "copy")
        plain = alone(family, requests(GREEDY, 5))
        told = [
            dataclasses.replace(r, prediction=c.token_ids)
            for r, c in zip(requests(GREEDY, 5), plain, strict=True)
        ]
        assert outcome(drafted.generate(told)) == outcome(plain)
        assert drafted.stats.accepted > 0.4 * drafted.stats.emitted
