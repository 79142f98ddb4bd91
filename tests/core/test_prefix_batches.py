"""Rows that run together share the beginnings of their prompts, whatever the order, and survive failures."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import Engine, Request, SamplingParams
from core.targets.runners import call_again
from core.types import Sequence
from tests.core.dictation import Failing
from tests.core.models import repetitive, target_of
from tests.core.reusing import DOCUMENTS, GREEDY, SAMPLED, Readings, ask, engine, expected, over, reused

pytestmark = pytest.mark.usefixtures("small_limits")


def test_rows_that_join_together_read_their_document_once(monkeypatch: pytest.MonkeyPatch) -> None:
    used = engine()
    seen = Readings(used.target, monkeypatch)
    asked = [[*DOCUMENTS[0], *repetitive(3 + i, seed=30 + i)] for i in range(5)]
    completions = ask(used, *asked)
    assert sorted(reused(completions)) == [0, 40, 40, 40, 40]
    # The longest is read as a whole, then the ends of the others in one pass.
    assert seen.num_queries < sum(len(prompt) for prompt in asked) / 2


def test_a_row_that_joins_late_takes_over_from_a_running_one() -> None:
    used = engine()
    running = used.add(Request(DOCUMENTS[0], params=SamplingParams(max_new_tokens=20)))
    used.step()
    late = used.add(Request([*DOCUMENTS[0], 50]), GREEDY)
    while late.finish_reason is None:
        used.step()
    assert late.stats.reused_tokens == 40
    assert late.output_ids == expected("llama", (*DOCUMENTS[0], 50))
    while running.finish_reason is None:
        used.step()
    assert running.output_ids == expected("llama", tuple(DOCUMENTS[0]), SamplingParams(max_new_tokens=20))


def test_what_a_cancelled_row_has_committed_is_taken_over() -> None:
    used = engine()
    row = used.add(Request(DOCUMENTS[0], params=SamplingParams(max_new_tokens=20)))
    for _ in range(3):
        used.step()
    written = row.output_ids
    assert len(written) >= 3
    used.cancel(row)
    assert reused(ask(used, [*DOCUMENTS[0], *written])) == [40 + len(written) - 1]


def test_slots_and_parked_rows_keep_to_their_bounds() -> None:
    used = engine(prefix_rows=2, max_rows=3)
    for seed in range(3):
        ask(used, *(repetitive(20 + i, seed=10 * seed + i) for i in range(5)))
        assert len(used._slots.parked) == 2
    assert used.target.cache.num_slots <= 8  # five, by doubling


@pytest.mark.parametrize("family", ["llama", "t5"])
def test_padding_of_static_shapes_leaves_parked_rows_alone(family: str) -> None:
    target = target_of(family)
    target.eos_token_ids = frozenset()
    target.use_static_shapes(call_again)
    used = over(target, prefix_rows=3, max_rows=5)
    ask(used, *DOCUMENTS, family=family)
    for count in (3, 1, 2, 5, 3):
        others = [repetitive(9 + i, seed=40 + i) for i in range(count - 1)]
        (again, *_) = ask(used, DOCUMENTS[0], *others, family=family)
        assert again.stats.reused_tokens == (40 if family == "t5" else 39)
        assert all(row.slot >= target.row_bucket(0) for row in used._slots.parked)


def test_an_engine_forgets_what_another_on_the_same_target_wrote_over() -> None:
    used = engine()
    ask(used, DOCUMENTS[0])
    other = over(used.target, prefix_rows=0)
    ask(other, DOCUMENTS[1])
    assert reused(ask(used, DOCUMENTS[0])) == [0]
    assert reused(ask(used, DOCUMENTS[0])) == [39]


@st.composite
def prompts(draw: st.DrawFn, earlier: list[list[int]]) -> list[int]:
    """A document, or a text that was written before, cut somewhere and gone on with."""
    text = draw(st.sampled_from([*DOCUMENTS, *earlier]))
    cut = draw(st.integers(1, len(text)) | st.just(len(text)))
    return text[:cut] + draw(st.lists(st.integers(4, 95), max_size=4))


#: Engines live on between examples: what one leaves in the cache, the next one meets.
USED: dict[str, Engine] = {}


def used_engine(family: str) -> Engine:
    if family not in USED:
        name = family.removesuffix(" static")
        target = target_of(name)
        target.eos_token_ids = frozenset()
        if name != family:
            target.use_static_shapes(call_again)
        USED[family] = over(target, prefix_rows=3, max_rows=5)
    return USED[family]


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "llama static", "t5", "bart"])
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_no_order_of_requests_changes_a_token(family: str, data: st.DataObject) -> None:
    used, name = used_engine(family), family.removesuffix(" static")
    rows: list[Sequence] = []
    written: list[list[int]] = []
    for _ in range(data.draw(st.integers(1, 8))):
        action = data.draw(st.sampled_from(["add", "add", "add", "step", "step", "finish", "cancel"]))
        if action == "add":
            params = data.draw(st.sampled_from([GREEDY, SAMPLED]))
            rows.append(used.add(Request(data.draw(prompts(written))), params))
        elif action == "cancel" and rows:
            used.cancel(data.draw(st.sampled_from(rows)))
        else:
            used.step()
            while action == "finish" and used.running:
                used.step()
        written = [row.tokens[:60] for row in rows if not used.target.is_encoder_decoder]
    while any(row.finish_reason is None for row in rows):
        used.step()
    for row in rows:
        whole = expected(name, tuple(row.prompt_ids), row.params)
        assert row.output_ids == (whole[: len(row.output_ids)] if row.finish_reason == "cancelled" else whole)
        assert row.finish_reason == "cancelled" or used.completion(row).token_ids == whole
    assert not used.running
    assert len(used._slots.parked) <= 3


def test_a_prompt_that_cannot_be_read_costs_only_what_it_had_taken() -> None:
    used = engine()
    ask(used, DOCUMENTS[0], DOCUMENTS[1])

    def out_of_memory(*args: object) -> None:
        raise RuntimeError("out of memory")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(used.target, "read", out_of_memory)
        with pytest.raises(RuntimeError, match="out of memory"):
            used.generate([Request([*DOCUMENTS[0], 50, 51]), Request(repetitive(9, seed=70))])
    assert not used.running
    assert not used._waiting
    assert reused(ask(used, DOCUMENTS[1])) == [29]
    ask(used, [*DOCUMENTS[0], 50, 51], repetitive(9, seed=70))


def test_a_row_that_breaks_in_the_middle_of_a_turn_leaves_what_it_had_committed() -> None:
    used = engine()
    with pytest.raises(RuntimeError, match="broke"):
        used.generate([Request(DOCUMENTS[0], transform=Failing(43))], GREEDY)
    (completion,) = ask(used, DOCUMENTS[0])
    assert completion.stats.reused_tokens == 39


def test_without_memory_to_park_a_row_the_engine_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    used = engine()

    def full(num_slots: int) -> None:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(used.target, "reserve_slots", full)
    # Both end in one step: the first would need another slot, the second stays where it is.
    ask(used, *DOCUMENTS[:2], params=SamplingParams(max_new_tokens=1))
    assert len(used._slots.parked) == 1
