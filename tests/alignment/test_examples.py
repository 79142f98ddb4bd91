"""Batches say what the models themselves would learn from."""

from __future__ import annotations

import random

import pytest
import torch
from torch.nn import functional as F

from core.alignment.examples import IGNORED, Example, Layout, batches, collate
from core.alignment.forward import learnt_labels, learnt_logits
from tests.alignment.aligning import FAMILIES, given, target


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_likelihood_is_the_models_own_loss(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # In float32 on every processor: where one has bf16, training would use it.
    monkeypatch.setattr("core.training.precision.has_bfloat16", lambda device: False)
    model = target(family)
    examples = given(5)
    batch = collate(examples, Layout.of(model))
    ours = F.cross_entropy(learnt_logits(model, batch), learnt_labels(batch), reduction="sum")
    total = 0.0
    for example in examples:
        prompt, output = torch.tensor([example.prompt]), torch.tensor([example.output])
        if family == "llama":
            labels = torch.cat([torch.full_like(prompt, IGNORED), output], dim=1)
            out = model(input_ids=torch.cat([prompt, output], dim=1), labels=labels)
        else:
            out = model(input_ids=prompt, labels=output)
        total += float(out.loss) * len(example.output)
    assert float(ours) == pytest.approx(total, rel=1e-4)
    assert batch.tokens == sum(len(example.output) for example in examples)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_tokens_that_are_not_learnt_are_read_all_the_same(family: str) -> None:
    model = target(family)
    prompt, output = (5, 6, 7), (8, 9, 10, 2)
    layout = Layout.of(model)
    whole = collate([Example(prompt, output)], layout)
    part = collate([Example(prompt, output, (False, True, False, True))], layout)
    torch.testing.assert_close(learnt_logits(model, part), learnt_logits(model, whole)[[1, 3]])
    assert learnt_labels(part).tolist() == [9, 2]
    assert part.written.sum() == 4


def test_an_epoch_has_every_example_once_in_batches_of_bounded_size() -> None:
    layout = Layout.of(target("llama"))
    examples = [Example((5 + i % 50,) * (1 + i % 30), (6 + i % 50, 2)) for i in range(100)]
    found = []
    for batch in batches(examples, layout, 128, random.Random(0)):
        assert batch.inputs.numel() <= 128
        found += [int(row[0]) for row in batch.inputs]
    assert sorted(found) == sorted(example.prompt[0] for example in examples)


def test_what_does_not_fit_the_context_is_told_apart() -> None:
    decoder_only, encoder_decoder = (Layout.of(target(family)) for family in FAMILIES.values())
    long = Example((5,) * 200, (6,) * 100)
    assert encoder_decoder.fits(long)
    assert not decoder_only.fits(long)
    assert not encoder_decoder.fits(Example((5,), ()))
