"""Drafters with a model: the passes of the draft model themselves are exact, and trees are as they should be."""

from __future__ import annotations

import random
from typing import Any

import pytest

from core import Engine
from core.budget import FixedBudget
from core.targets.base import Target
from tests.core.models import target_of, word_tokenizer
from tests.core.test_identity import KINDS, SAMPLING, alone, outcome, requests, run_late
from tests.drafters.draft_models import relative_of


def engine(target: Target, drafter: str, num_nodes: int = 9, **options: Any) -> Engine:
    made = Engine(target, word_tokenizer(), drafter, drafter_options=options, max_rows=5)
    made.budget = FixedBudget(num_nodes)
    return made


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_model_equal_to_the_target_is_always_right(kind: str, sampling: str, width: int) -> None:
    # Whatever the draft model has in its cache after roll-backs, joins and leaves: one wrong entry would show.
    asked = requests(SAMPLING[sampling], 5)
    expected = outcome(alone(KINDS[kind], asked))
    target = target_of(KINDS[kind])
    twin = relative_of(target, error=0.0)
    drafted = engine(
        target,
        "draft_model",
        4 if width == 1 else 64,
        model=twin,
        width=width,
        num_children=width,
        max_depth=4,
        is_paced=False,
    )
    for completions in (drafted.generate(asked), run_late(drafted, asked, random.Random(3))):
        assert outcome(completions) == expected
        for completion in completions:
            stats = completion.stats
            if width == 1:
                assert stats.accepted == stats.drafted
            # Now and then a chain ends early: it has become too unlikely.
            assert stats.target_calls <= -(-stats.emitted // 5) + 2
