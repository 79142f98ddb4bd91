"""Distillation while serving: the outputs are plain decoding's, and the same questions are soon drafted better."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from core import Engine, Request, SamplingParams
from core.alignment.online import OnlineDistillation
from core.budget import FixedBudget
from core.drafters.draft_model import DraftModel
from core.targets.registry import target_for
from tests.alignment.aligning import FAMILIES, prompts, student, target
from tests.core.models import word_tokenizer

GREEDY = SamplingParams(max_new_tokens=12)
SAMPLED = SamplingParams(temperature=0.8, max_new_tokens=12)


def serving(family: str, **options: Any) -> tuple[Engine, OnlineDistillation]:
    goal = target_for(target(family))

    def make(frozen: Any) -> DraftModel:
        return DraftModel(goal, target_for(frozen), num_children=1, max_depth=4, is_paced=False)

    drafter = OnlineDistillation(goal, student(family), make=make, **options)
    return Engine(goal, word_tokenizer(), drafter, max_rows=3, prefix_rows=0, budget=FixedBudget(4)), drafter


def requests(params: SamplingParams, count: int = 6) -> list[Request]:
    return [
        Request(prompt, params=dataclasses.replace(params, seed=i, max_new_tokens=params.max_new_tokens - i))
        for i, prompt in enumerate(prompts(count))
    ]


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_learning_while_serving_never_changes_a_token(family: str, params: SamplingParams) -> None:
    engine, drafter = serving(family, update_every=2, steps=1)
    plain = Engine(target_for(target(family)), word_tokenizer(), "none").generate(requests(params))
    # Rows of different lengths: some run on while others end and the model is trained.
    done = engine.generate(requests(params))
    assert [one.token_ids for one in done] == [one.token_ids for one in plain]
    assert drafter.num_updates == 3


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_same_questions_are_soon_drafted_better(family: str) -> None:
    engine, drafter = serving(family, update_every=0, lr=5e-3, steps=25, batch_rows=6)
    rates = []
    losses = []
    for _ in range(2):
        done = engine.generate(requests(GREEDY))
        rates.append(sum(one.stats.emitted for one in done) / sum(one.stats.target_calls for one in done))
        losses.append(drafter.learn())
    assert rates[1] > rates[0] + 0.3
    assert losses[1] < losses[0]
    assert drafter.num_updates == 2


def test_what_is_learnt_are_the_targets_own_logits() -> None:
    engine, drafter = serving("llama", update_every=0)
    engine.generate(requests(GREEDY, 2))
    assert len(drafter._served) == 2
    for served in drafter._served:
        text = torch.tensor([[*served.example.prompt, *served.example.output]])
        with torch.no_grad():
            logits = target("llama")(text).logits[0, len(served.example.prompt) - 1 : -1]
        torch.testing.assert_close(served.logits.float(), logits, rtol=2e-3, atol=2e-3)
        assert served.logits.argmax(-1).tolist() == list(served.example.output)


def test_only_what_was_missed_is_learnt_where_asked() -> None:
    engine, drafter = serving("bart", update_every=0, only_missed=True)
    done = engine.generate(requests(GREEDY, 3))
    learnt = sum(sum(served.example.learnt or ()) for served in drafter._served)
    assert learnt == sum(one.stats.emitted - one.stats.accepted for one in done)
    assert learnt > 0


def test_memory_is_bounded_and_nothing_served_is_nothing_learnt() -> None:
    engine, drafter = serving("llama", update_every=0, capacity=20)
    assert drafter.learn() is None
    engine.generate(requests(GREEDY))
    assert sum(len(served.example.output) for served in drafter._served) <= 20
    assert not drafter._said
    assert not drafter._drafter_of
    row = engine.add(requests(GREEDY)[0])
    engine.step()
    engine.cancel(row)
    assert not drafter._said


def test_a_draft_model_drafts_where_nothing_else_is_said() -> None:
    goal = target_for(target("bart"))
    drafter = OnlineDistillation(goal, student("bart"), update_every=1, steps=1)
    asked = requests(GREEDY, 2)
    plain = Engine(goal, word_tokenizer(), "none", prefix_rows=0).generate(asked)
    done = Engine(goal, word_tokenizer(), drafter, prefix_rows=0, budget=FixedBudget(4)).generate(asked)
    assert [one.token_ids for one in done] == [one.token_ids for one in plain]
    assert sum(one.stats.drafted for one in done) > 0


def test_the_draft_model_can_be_kept(tmp_path: Path) -> None:
    engine, drafter = serving("llama", update_every=2, steps=1, lr=1e-2)
    engine.generate(requests(GREEDY, 2))
    drafter.save(tmp_path)
    kept = AutoModelForCausalLM.from_pretrained(tmp_path)
    for name, value in drafter.model.state_dict().items():
        torch.testing.assert_close(kept.state_dict()[name], value)


@pytest.mark.parametrize(
    "wrong", [{"loss": "likelihood"}, {"steps": 0}, {"capacity": 0}, {"update_every": -1}]
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        serving("llama", **wrong)
