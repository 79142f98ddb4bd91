"""Heads learn what the target says further ahead, and the target stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from core.alignment.config import AlignConfig
from core.alignment.examples import collate
from core.alignment.heads import EagleObjective, MedusaObjective, new_heads, objective_of
from core.alignment.running import ModuleTrainer, run_training
from core.drafters.eagle_head import EagleHead
from core.drafters.medusa_heads import MedusaHeads
from tests.alignment.aligning import FAMILIES, target, written

SETTINGS = {
    "batch_tokens": 256,
    "held": 4,
    "optimizer": "adamw",
    "lr": 1e-2,
    "embed_lr": 1e-2,
    "warmup_steps": 2,
}


def config(steps: int, loss: str = "likelihood") -> AlignConfig:
    return AlignConfig(minutes=5.0, max_steps=steps, ema=0.5, loss=loss, **SETTINGS)  # type: ignore[arg-type]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_an_untrained_head_says_what_the_target_says_one_place_early(family: str) -> None:
    model = target(family)
    examples = written(model, 6)
    heads = new_heads("blockwise", model, 2)
    assert isinstance(heads, MedusaHeads)
    objective = MedusaObjective(model, examples, config(1))
    batch = collate(examples, objective.layout)
    right = [0, 0]
    asked = [0, 0]
    losses: list[list[float]] = [[], []]
    for example in examples:
        # The target's own logits, example by example: what head k is measured against, by hand.
        alone = collate([example], objective.layout)
        with torch.no_grad():
            logits = model(**alone.model_inputs()).logits[0][alone.written[0]]
        for k in (0, 1):
            for i in range(len(example.output) - k - 1):
                right[k] += int(logits[i].argmax() == logits[i + k + 1].argmax())
                asked[k] += 1
                losses[k].append(float(F.cross_entropy(logits[i], torch.tensor(example.output[i + k + 1]))))
    with torch.no_grad():
        assert objective.hits(heads, batch).tolist() == [[right[k], asked[k]] for k in (0, 1)]
        weighted, plain = objective.loss(heads, batch, 0.0)
    means = [sum(one) / len(one) for one in losses]
    assert float(plain) == pytest.approx(sum(means) / 2, rel=1e-4)
    assert float(weighted) == pytest.approx(means[0] + 0.8 * means[1], rel=1e-4)


@pytest.mark.parametrize(
    ("kind", "loss"), [("blockwise", "likelihood"), ("medusa", "forward_kl"), ("eagle", "likelihood")]
)
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_trained_heads_guess_better_and_are_saved(family: str, kind: str, loss: str, tmp_path: Path) -> None:
    model = target(family)
    examples = written(model, 16)
    heads = new_heads(kind, model, 2).train()
    objective = objective_of(heads, model, examples, config(15, loss))
    objective.held = objective.examples[:8]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first = objective.held_out(heads.eval(), torch.device("cpu"))
    run_training(heads, objective, tmp_path, objective.config, None, "cpu", ModuleTrainer)
    last = objective.held_out(heads.eval(), torch.device("cpu"))
    assert first is not None
    assert last is not None
    assert last.loss < 0.9 * first.loss
    assert float(last.note.split()[1].strip(",")) > float(first.note.split()[1].strip(","))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    kept = type(heads).load(tmp_path / "export")
    assert kept.config == heads.config


def test_eagle_reads_the_state_behind_a_token_and_the_next_token() -> None:
    model = target("llama")
    examples = written(model, 4)
    objective = EagleObjective(model, examples, config(1))
    batch = collate(examples, objective.layout)

    class Knows(EagleHead):
        """Notes what it is given and gives back the states it should guess."""

        def forward(self, hidden, embedded, *_):  # type: ignore[no-untyped-def, override]
            self.given = hidden, embedded
            return self.answer, []

    head = Knows(32, num_heads=4).eval()
    states = model(**batch.model_inputs(), output_hidden_states=True).hidden_states[-1]
    head.answer = states[:, 1:]
    loss, _ = objective.loss(head, batch, 0.0)
    hidden, embedded = head.given
    torch.testing.assert_close(hidden, states[:, :-1])
    torch.testing.assert_close(embedded, model.get_input_embeddings()(batch.inputs[:, 1:]))
    right, asked = objective.hits(head, batch)[0].tolist()
    assert right == asked == sum(len(example.output) for example in examples)
    # What is left is a tenth of the target's entropy.
    places = (batch.labels >= 0)[:, 1:]
    logits = model(**batch.model_inputs()).logits[:, 1:][places]
    assert float(loss) == pytest.approx(
        0.1 * float(torch.distributions.Categorical(logits=logits).entropy().mean()), rel=1e-3
    )


def test_heads_of_an_unknown_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="no heads of kind 'hydra'"):
        new_heads("hydra", target("llama"), 2)
