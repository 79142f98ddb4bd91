"""A non-autoregressive drafter learns to fill masks behind a text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from core.alignment.config import AlignConfig
from core.alignment.examples import IGNORED, Example, collate
from core.alignment.filling import FillingObjective
from core.alignment.running import run_training
from tests.alignment.aligning import FAMILIES, given, student, target, written

MASK, BLOCK = 3, 3


def objective_for(family: str, examples: list[Example], steps: int = 1) -> FillingObjective:
    config = AlignConfig(
        minutes=5.0, max_steps=steps, ema=0.5, loss="likelihood", batch_tokens=256, held=4, optimizer="adamw",
        lr=5e-3, embed_lr=5e-3, warmup_steps=2,
    )  # fmt: skip
    return FillingObjective(student(family), examples, config, MASK, BLOCK)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_behind_the_cut_masks_are_read_and_the_tokens_are_learnt(family: str) -> None:
    examples = given(9)
    objective = objective_for(family, examples)
    whole = {example.prompt: example.output for example in examples}
    cuts = set()
    for masked in objective.epoch(random.Random(1)):
        output = whole[masked.prompt]
        batch = collate([masked], objective.layout)
        before = len(objective.layout.start) if family == "bart" else len(masked.prompt)
        labels = [int(label) for label in batch.labels[0] if label != IGNORED]
        cut = sum(not learnt for learnt in masked.learnt or ())
        cuts.add(cut)
        assert labels == list(output[cut : cut + BLOCK])
        read = batch.inputs[0, before:][: cut + len(labels) - 1].tolist()
        assert read == [*output[:cut], *[MASK] * (len(labels) - 1)]
        # The first of them is learnt behind the last token that is known.
        assert batch.labels[0, before + cut - 1] == output[cut]
    assert len(cuts) > 1


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_blocks_are_filled_better_after_training(family: str, tmp_path: Path) -> None:
    objective = objective_for(family, written(target(family), 16), 20)
    objective.held = objective.examples[:8]
    draft = student(family)
    before = objective.held_out(draft.eval(), torch.device("cpu"))
    run_training(draft, objective, tmp_path, objective.config, None, "cpu")
    after = objective.held_out(draft.eval(), torch.device("cpu"))
    assert before is not None
    assert after is not None
    assert after.loss < 0.8 * before.loss


def test_masks_and_blocks_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="mask_token_id=4000"):
        FillingObjective(student("llama"), given(4), AlignConfig(), 4000, 3)
    with pytest.raises(ValueError, match="block_size=0"):
        FillingObjective(student("llama"), given(4), AlignConfig(), MASK, 0)
