"""Collective boost-tuning (SpecInfer, Miao et al. 2305.09781, section 4): each draft model learns what those before it
miss, so that together they cover more of what the target says than any alone.

Knows models and examples. Does not know how a model is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any

import torch

from core.alignment.examples import Example, Layout, collate
from core.alignment.forward import learnt_logits

_ROWS = 16

Train = Callable[[int, Seq[Example]], Any]
"""(number of the draft, what it is to learn) -> the trained model"""


def boost(num_drafts: int, examples: Seq[Example], train: Train, *, by_text: bool = False) -> list[Any]:
    """Train one draft after the other on what is left; returns the models.

    `by_text=True` takes a text out once a draft writes all of it as the target did (as published); else single
    tokens are, which leaves more to learn from long texts. Once nothing is left, the rest learn from everything.
    """
    left = list(examples)
    drafts = []
    for number in range(num_drafts):
        draft = train(number, left or examples)
        drafts.append(draft)
        left = missed(draft, left, by_text=by_text)
    return drafts


@torch.no_grad()
def missed(model: Any, examples: Iterable[Example], *, by_text: bool = False) -> list[Example]:
    """The examples in which the model's best token is not the one written somewhere; `learnt` marks those tokens, or
    with `by_text` stays as it is."""
    waiting = list(examples)
    layout = Layout.of(model)
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    left: list[Example] = []
    for start in range(0, len(waiting), _ROWS):
        group = [replace(example, learnt=None) for example in waiting[start : start + _ROWS]]
        best = learnt_logits(model, collate(group, layout).to(device)).argmax(-1).tolist()
        for example in waiting[start : start + _ROWS]:
            said, best = best[: len(example.output)], best[len(example.output) :]
            asked = example.learnt or (True,) * len(example.output)
            wrong = tuple(a and s != t for a, s, t in zip(asked, said, example.output, strict=True))
            if any(wrong):
                left.append(example if by_text else replace(example, learnt=wrong))
    model.train(was_training)
    return left


@torch.no_grad()
def coverage(models: Seq[Any], examples: Seq[Example]) -> float:
    """The share of output tokens that at least one of the models would have guessed behind the right prefix."""
    left = list(examples)
    for model in models:
        left = missed(model, left)
    total = sum(len(example.output) for example in examples)
    return 1.0 - sum(sum(example.learnt or ()) for example in left) / total
