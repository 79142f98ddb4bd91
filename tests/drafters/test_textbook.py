"""Textbook speculative sampling with draft models: what is written has the target's distribution."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from core import Engine, Request, SamplingParams
from core.budget import FixedBudget
from core.sampling import probabilities
from core.targets.base import Target
from tests.core.models import build, target_of, word_tokenizer
from tests.core.statistics import chi_square
from tests.drafters.draft_models import relative_of

PROMPT = [7, 30, 12, 44]
PARAMS = SamplingParams(temperature=1.0, top_k=3, max_new_tokens=3)
TRIALS = 500
#: The draws are seeded: a right rule passes every time.
SIGNIFICANCE = 1e-3


def expected() -> dict[tuple[int, ...], float]:
    """Probability of every text of three tokens, by passes of the stock model."""
    model = build("llama", torch.float32)
    texts: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(PARAMS.max_new_tokens):
        logits = model(torch.tensor([[*PROMPT, *text] for text in texts])).logits[:, -1]
        longer = {}
        for (text, weight), probs in zip(texts.items(), probabilities(logits, PARAMS), strict=True):
            longer |= {
                (*text, token): weight * float(probs[token]) for token in probs.nonzero().flatten().tolist()
            }
        texts = longer
    return texts


def options(name: str, target: Target) -> dict[str, Any]:
    """Trees with branches, from models that are only roughly like the target."""
    drafting = {"is_paced": False, "max_depth": 2, "num_children": 2}
    model = relative_of(target, error=0.25)
    if name == "spec_infer":
        return {"models": [model, relative_of(target, error=0.25, seed=2)], **drafting}
    return {"model": model, **drafting, **({"width": 2} if name == "draft_model" else {})}


@pytest.mark.parametrize("drafter", ["draft_model", "spec_infer", "cascade"])
def test_drawn_trees_leave_the_targets_distribution_as_it_is(drafter: str) -> None:
    target = target_of("llama", torch.float32)
    engine = Engine(
        target,
        word_tokenizer(),
        drafter,
        drafter_options=options(drafter, target),
        verification="speculative_sampling",
        max_rows=100,
        budget=FixedBudget(6),
    )
    asked = [
        Request(PROMPT, params=SamplingParams(1.0, top_k=3, max_new_tokens=3, seed=seed))
        for seed in range(TRIALS)
    ]
    written = [tuple(completion.token_ids) for completion in engine.generate(asked)]
    texts = expected()
    assert set(written) <= set(texts)
    counts = torch.tensor([written.count(text) for text in texts])
    assert chi_square(counts, torch.tensor(list(texts.values()))) > SIGNIFICANCE
    # Both happened often: drafts that were accepted, and drafts that were not.
    assert 0.2 < engine.stats.accepted / engine.stats.emitted < 0.6
    assert engine.stats.drafted > 1.3 * engine.stats.accepted


def test_the_distribution_that_a_token_was_drawn_from_goes_with_it() -> None:
    target = target_of("llama")
    draft = relative_of(target, error=0.25)
    for rule, temperature in itertools.product(("exact", "speculative_sampling"), (0.0, 1.0)):
        engine = Engine(
            target,
            word_tokenizer(),
            "draft_model",
            drafter_options={"model": draft, "is_paced": False},
            verification=rule,
            budget=FixedBudget(6),
        )
        row = engine.add(Request(PROMPT), SamplingParams(temperature, max_new_tokens=20))
        engine.step()
        with torch.inference_mode():
            (tree,) = engine.drafter.propose([row], [6])
        if rule == "exact" or temperature == 0.0:
            assert tree.probs is None
        else:
            assert tree.probs is not None
            assert all(float(q.sum()) == pytest.approx(1.0) for q in tree.probs)
            assert all(q[token] > 0 for q, token in zip(tree.probs, tree.tokens, strict=True))
        engine.cancel(row)
