"""Drafters with a model: the passes of the draft model themselves are exact, and trees are as they should be."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from core import Engine, Request, SamplingParams, drafters
from core.budget import FixedBudget
from core.drafters.cascade import Cascade
from core.drafters.partial_model import num_layers, with_layers
from core.targets.base import Target
from tests.core.models import target_of, word_tokenizer
from tests.core.test_identity import KINDS, SAMPLING, outcome, plain_outcome, requests, run_late
from tests.drafters.draft_models import options_for, relative_of


def engine(target: Target, drafter: str, num_nodes: int = 9, **options: Any) -> Engine:
    made = Engine(target, word_tokenizer(), drafter, drafter_options=options, max_rows=5)
    made.budget = FixedBudget(num_nodes)
    return made


#: Drafters that know all that the target knows.
TWINS: dict[str, Callable[[Target], dict[str, Any]]] = {
    "cascade": lambda target: {"model": relative_of(target, error=0.0), "num_behind": 0},
    "draft_model": lambda target: {"model": relative_of(target, error=0.0)},
    "early_exit": lambda target: {"num_layers": 2},
    "layer_skip": lambda target: {"skip": ()},
}


@pytest.mark.parametrize(
    ("drafter", "width", "sampling"),
    [
        ("cascade", 1, "greedy"),
        ("draft_model", 1, "greedy"),
        ("draft_model", 3, "sampled"),
        ("early_exit", 1, "sampled"),
        ("layer_skip", 1, "greedy"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_model_equal_to_the_target_is_always_right(
    kind: str, drafter: str, width: int, sampling: str
) -> None:
    # Whatever lies in the draft model's cache after roll-backs, joins and leaves: one wrong entry would show.
    asked = requests(SAMPLING[sampling], 5)
    expected = plain_outcome(KINDS[kind], sampling)
    target = target_of(KINDS[kind])
    sizes = {"width": width, "num_children": width, "max_depth": 4, "is_paced": False}
    drafted = engine(target, drafter, 4 if width == 1 else 64, **TWINS[drafter](target), **sizes)
    for completions in (drafted.generate(asked), run_late(drafted, asked, random.Random(3))):
        assert outcome(completions) == expected
        for completion in completions:
            stats = completion.stats
            if width == 1:
                assert stats.accepted == stats.drafted
            # Now and then a chain ends early: it has become too unlikely.
            assert stats.target_calls <= -(-stats.emitted // 5) + 2


def test_a_cascade_needs_fewer_passes_of_its_draft_model_for_the_same_drafts() -> None:
    # What is written a second time the table knows, and so what the target's twin, the draft model, will say.
    asked = [Request([9, 17, 30], params=SamplingParams(max_new_tokens=60))]
    target = target_of("llama")
    twin = relative_of(target, error=0.0)
    sizes = {"model": twin, "num_children": 1, "num_behind": 0, "is_paced": False}
    passes, calls = [], []
    for num_guesses in (0, 4):
        drafted = engine(target, "cascade", num_guesses=num_guesses, **sizes)
        assert isinstance(drafted.drafter, Cascade)
        drafted.generate(asked)
        before = drafted.drafter.num_passes
        drafted.generate(asked)
        passes.append(drafted.drafter.num_passes - before)
        calls.append(drafted.stats.target_calls)
    assert calls[0] == calls[1]
    assert passes[1] < 0.8 * passes[0]


@pytest.mark.parametrize("family", ["gemma3", "gpt2", "t5", "bart"])
def test_a_target_with_fewer_layers_leaves_the_whole_one_as_it_was(family: str) -> None:
    asked = requests(SAMPLING["greedy"], 3)
    target = target_of(family)
    before = outcome(Engine(target, word_tokenizer(), "none").generate(asked))
    for kept in ([0], [0, 1]):
        part = with_layers(target, kept)
        assert part.cache.num_layers == len(kept)
        assert part.cache.data is target.cache.data
    assert num_layers(target) == target.cache.num_layers == 2
    assert outcome(Engine(target, word_tokenizer(), "none").generate(asked)) == before


def test_what_cannot_draft_for_a_target_is_refused_with_the_reason() -> None:
    llama, t5 = target_of("llama"), target_of("t5")
    with pytest.raises(
        ValueError, match="the draft model is an encoder-decoder model, the target a decoder-only"
    ):
        drafters.create("draft_model", llama, model=t5)
    with pytest.raises(ValueError, match=r"names layer 2; the decoder has 0[.][.]1"):
        drafters.create("layer_skip", llama, skip=[2])
    with pytest.raises(ValueError, match=r"at least one of 0[.][.]1"):
        drafters.create("layer_skip", llama, skip=[0, 1])
    with pytest.raises(ValueError, match="cannot do without layer 0"):
        drafters.create("layer_skip", t5, skip=[0])
    with pytest.raises(ValueError, match=r"num_layers=3 must lie in 1[.][.]2"):
        drafters.create("early_exit", llama, num_layers=3)
    with pytest.raises(ValueError, match="must be at least 1"):
        drafters.create("early_exit", llama, width=0)
    with pytest.raises(ValueError, match="a cascade drafts chains"):
        drafters.create("cascade", llama, model=llama, width=2)
    with pytest.raises(ValueError, match="spec_infer needs at least one draft model"):
        drafters.create("spec_infer", llama, models=[])
    for name, option in drafters.NEED_OPTIONS.items():
        with pytest.raises(
            drafters.MissingOptionError, match=f"drafter '{name}' needs the option '{option}'"
        ):
            drafters.create(name, llama)
    with pytest.raises(ValueError, match="belong to a drafter's name"):
        Engine(llama, word_tokenizer(), drafters.create("none", llama), drafter_options={"width": 1})
    with pytest.raises(TypeError, match="no_such_option"):
        Engine(llama, word_tokenizer(), "early_exit", drafter_options={"no_such_option": 1})


def test_draft_models_and_heads_may_stand_beside_other_drafters() -> None:
    asked = requests(SAMPLING["sampled"], 5)
    target = target_of("llama")
    parts = ("copy", "draft_model", "early_exit", "eagle", "heads")
    options = {part: options_for(part, target) for part in parts[1:]}
    drafted = engine(target, "+".join(parts), 16, is_gated=False, **options)
    assert outcome(drafted.generate(asked)) == plain_outcome("llama", "sampled")
    assert outcome(run_late(drafted, asked, random.Random(3))) == plain_outcome("llama", "sampled")
    assert drafted.stats.accepted > 100


def test_rows_that_a_draft_model_cannot_hold_are_written_all_the_same() -> None:
    # The draft model has room for 24 tokens and knows 60: some rows never fit, others outgrow it.
    asked = requests(SAMPLING["greedy"], 5)
    target = target_of("llama")
    small = target_of("llama", vocab_size=60, max_position_embeddings=24)
    drafted = engine(target, "draft_model", model=small, is_paced=False)
    assert outcome(drafted.generate(asked)) == plain_outcome("llama", "greedy")
    assert outcome(run_late(drafted, asked, random.Random(1))) == plain_outcome("llama", "greedy")
