"""Distillation makes a draft agree with its target, on given, the target's and its own outputs; runs can be resumed."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from core import Engine, Request, SamplingParams
from core.alignment.acceptance import tokens_per_pass
from core.alignment.config import LOSSES, AlignConfig
from core.alignment.examples import IGNORED, Layout
from core.alignment.objective import DistillObjective
from core.alignment.running import run_training
from core.alignment.writing import engine_of, read_examples, write_to_file
from core.targets.registry import target_for
from core.training import Progress
from tests.alignment.aligning import FAMILIES, prompts, student, target, written
from tests.core.models import build, word_tokenizer

CPU = torch.device("cpu")


def config(steps: int, **more: Any) -> AlignConfig:
    settings = {
        "batch_tokens": 256,
        "held": 8,
        "optimizer": "adamw",
        "lr": 5e-3,
        "embed_lr": 5e-3,
        "warmup_steps": 2,
    }
    return AlignConfig(minutes=5.0, max_steps=steps, ema=0.5, **{**settings, **more})


@pytest.mark.parametrize(
    ("family", "loss"),
    [*(("bart", loss) for loss in LOSSES), ("llama", "likelihood"), ("llama", "reverse_kl")],
)
def test_every_loss_makes_the_target_accept_more(family: str, loss: str, tmp_path: Path) -> None:
    model, draft = target(family), student(family)
    objective = DistillObjective(model, draft, written(model, 20), config(24, loss=loss))
    # The very texts that are learnt: whether a random model's texts can be generalised is not the question.
    objective.held = objective.examples[:8]
    before = objective.held_out(draft.eval(), CPU)
    run_training(draft, objective, tmp_path, objective.config, None, "cpu")
    after = objective.held_out(draft.eval(), CPU)
    assert before is not None
    assert after is not None
    assert after.loss < 0.9 * before.loss
    accepted = [float(held.note.split()[1]) for held in (before, after)]
    assert accepted[1] > accepted[0] + 0.02
    assert (tmp_path / "export" / "config.json").exists()


def test_a_model_is_at_no_distance_from_itself() -> None:
    model = target("bart")
    for loss in LOSSES[1:]:
        objective = DistillObjective(model, model, written(model, 4), config(1, loss=loss))
        held = objective.held_out(model, CPU)
        assert held is not None
        assert held.loss == pytest.approx(0.0, abs=1e-5)
        assert held.note == "accepted 1.000 sampled, 1.000 greedy"


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_on_policy_batches_are_what_the_draft_writes_now(family: str) -> None:
    draft = student(family)
    settings = config(1, on_policy=1.0, temperature=0.0, rollouts=4, max_new_tokens=6, refresh=1)
    objective = DistillObjective(target(family), draft, written(draft, 12), settings, word_tokenizer())
    progress = Progress()
    stream = objective.batches(progress, lambda: 0.0)

    def outputs() -> set[tuple[int, ...]]:
        batch = next(stream)
        return {tuple(int(t) for t in row if t != IGNORED) for row in batch.labels}

    def said() -> set[tuple[int, ...]]:
        # A copy: the engine's adapter leaves hooks in its model.
        engine = Engine(target_for(copy.deepcopy(draft)), word_tokenizer(), "none")
        params = SamplingParams(max_new_tokens=6)
        done = engine.generate([Request(example.prompt) for example in objective.examples], params)
        return {tuple(one.token_ids) for one in done}

    first = outputs()
    assert first <= said()
    with torch.no_grad():
        draft.get_output_embeddings().weight.copy_(draft.get_output_embeddings().weight.flip(0))
    progress.step += 1
    second = outputs()
    assert second <= said()
    assert not first & second
    assert not [part for part in draft.modules() if "forward" in vars(part)], "the draft was hooked"


def test_a_share_of_the_batches_is_on_policy() -> None:
    draft = student("llama")
    own = DistillObjective(
        target("llama"),
        draft,
        written(draft, 12),
        config(1, on_policy=0.5, max_new_tokens=3),
        word_tokenizer(),
    )
    taken = list(itertools.islice(own.batches(Progress(), lambda: 0.0), 60))
    longest = [max(int((row != IGNORED).sum()) for row in batch.labels) for batch in taken]
    assert 15 < sum(length <= 3 for length in longest) < 45


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    model = target("bart")
    examples = written(model, 16)

    def run(steps: int) -> Progress:
        draft = student("bart")
        objective = DistillObjective(model, draft, examples, config(steps))
        return run_training(draft, objective, tmp_path, objective.config, None, "cpu")

    first, second = run(4), run(9)
    assert (first.step, second.step) == (4, 9)
    assert second.seconds > first.seconds
    assert len(json.loads((tmp_path / "progress.json").read_text())["held"]) == 2


def test_the_targets_outputs_are_kept_and_not_written_twice(tmp_path: Path) -> None:
    model, path = target("llama"), tmp_path / "kept.jsonl"
    engine = engine_of(model, word_tokenizer())
    first = write_to_file(engine, prompts(3), path, 0.0, 5)
    path.write_text(path.read_text() + '{"prompt": [5, 6')
    both = write_to_file(engine, prompts(5), path, 0.0, 5)
    assert both[:3] == first
    assert list(read_examples(path)) == both
    calls = engine.stats.target_calls
    assert write_to_file(engine, prompts(4), path, 0.0, 5) == both[:4]
    assert engine.stats.target_calls == calls
    with pytest.raises(ValueError, match="line 1, answers another prompt"):
        write_to_file(engine, prompts(5)[::-1], path, 0.0, 5)


def test_tokens_per_pass_depend_on_agreement_alone() -> None:
    model = build("bart", torch.float32)
    goal, twin, stranger = (
        target_for(model),
        target_for(build("bart", torch.float32)),
        target_for(student("bart")),
    )
    asked = prompts(4)
    for temperature, rule in ((0.0, "exact"), (1.0, "exact"), (1.0, "speculative_sampling")):
        settings = {"temperature": temperature, "rule": rule, "depth": 3, "max_new_tokens": 12}
        same = tokens_per_pass(goal, twin, word_tokenizer(), asked, **settings)
        other = tokens_per_pass(goal, stranger, word_tokenizer(), asked, **settings)
        assert same["accepted"] > 0.99
        assert same["tokens_per_pass"] > 3
        assert other["tokens_per_pass"] < 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"loss": "l2"}, "no loss 'l2'"),
        ({"on_policy": 2.0}, "on_policy=2.0"),
        ({"on_policy": 0.5, "loss": "likelihood"}, "teaches it nothing"),
        ({"temperature": -1.0}, "temperature=-1.0"),
        ({"held": 0}, "held=0"),
    ],
)
def test_settings_that_cannot_be_trained_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        AlignConfig(**wrong)
    with pytest.raises(ValueError, match="0 of 0 examples"):
        DistillObjective(target("bart"), student("bart"), [], AlignConfig())


def test_a_layout_knows_what_its_decoder_begins_with() -> None:
    assert Layout.of(target("bart")).start == (2,)
    assert Layout.of(target("llama")).start == ()
