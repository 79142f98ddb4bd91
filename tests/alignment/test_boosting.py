"""Each draft learns what those before it miss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from core.alignment.boosting import boost, coverage, missed
from core.alignment.examples import Example, Layout, collate
from core.alignment.forward import learnt_logits
from tests.alignment.aligning import FAMILIES, given, student, target, written


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_what_a_model_misses_is_what_it_would_not_have_said(family: str) -> None:
    model, other = target(family), student(family)
    own = written(model, 5)
    assert missed(model, own) == []
    left = missed(other, own)
    expected = []
    for example in own:
        said = learnt_logits(other, collate([example], Layout.of(other))).argmax(-1).tolist()
        wrong = tuple(a != b for a, b in zip(said, example.output, strict=True))
        if any(wrong):
            expected.append(Example(example.prompt, example.output, wrong))
    assert left == expected
    assert left
    assert missed(other, own, by_text=True) == [Example(example.prompt, example.output) for example in left]


def test_what_one_draft_gets_right_the_next_does_not_learn() -> None:
    drafts = [target("bart"), student("bart", seed=2), student("bart", seed=3)]
    examples = written(drafts[0], 3) + given(4)
    asked: list[Sequence[Example]] = []

    def train(number: int, left: Sequence[Example]) -> Any:
        asked.append(left)
        return drafts[number]

    assert boost(3, examples, train) == drafts
    assert asked[0] == examples
    assert asked[1] == missed(drafts[0], examples)
    assert asked[2] == missed(drafts[1], asked[1])
    learnt = [sum(sum(example.learnt or (True,) * len(example.output)) for example in one) for one in asked]
    assert learnt[0] > learnt[1] >= learnt[2]


def test_once_nothing_is_missed_all_is_learnt_again() -> None:
    model = target("llama")
    examples = written(model, 3)
    asked: list[Sequence[Example]] = []
    boost(2, examples, lambda _, left: asked.append(left) or model)
    assert asked == [examples, examples]


def test_together_drafts_cover_what_any_of_them_says() -> None:
    first, second = student("llama", seed=2), student("llama", seed=3)
    examples = written(first, 2) + written(second, 2)
    alone = [coverage([one], examples) for one in (first, second)]
    assert 0.5 <= min(alone) < 1
    assert coverage([first, second], examples) == 1
