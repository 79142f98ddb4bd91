"""What a row leaves in the cache changes how much a later prompt costs, and never a token."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import takewhile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import Completion, Engine, Request, SamplingParams, prefixes, slots
from core.budget import FixedBudget
from core.packing import Pass
from core.prefixes import Held, ParkedRows, common_prefix
from core.targets.base import Target
from core.targets.runners import call_again
from core.types import Sequence
from tests.core.dictation import Failing
from tests.core.models import repetitive, target_of, word_tokenizer

DOCUMENTS = [
    repetitive(40, seed=1),
    repetitive(30, seed=2),
    repetitive(40, seed=1)[:20] + repetitive(25, seed=3),
]
GREEDY = SamplingParams(max_new_tokens=6)
SAMPLED = SamplingParams(temperature=0.9, top_p=0.9, max_new_tokens=6, seed=5)


def engine(family: str = "llama", prefix_rows: int | None = None, **options: object) -> Engine:
    """Small limits, so that short texts meet every case; end tokens would cut them shorter still."""
    target = target_of(family)
    target.eos_token_ids = frozenset()
    return over(target, prefix_rows, **options)


def over(target: Target, prefix_rows: int | None = None, **options: object) -> Engine:
    return Engine(
        target,
        word_tokenizer(),
        "copy",
        budget=FixedBudget(5),
        prefix_rows=prefix_rows,
        **options,  # type: ignore[arg-type]
    )


@pytest.fixture(autouse=True)
def small_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prefixes, "MAX_LOST", 12)
        patched.setattr(slots, "WORTH_WAITING", 12)
        yield


@cache
def plain(family: str) -> Engine:
    made = engine(family, prefix_rows=0)
    made.budget = FixedBudget(0)
    return made


@cache
def expected(family: str, prompt: tuple[int, ...], params: SamplingParams = GREEDY) -> list[int]:
    """What plain decoding writes for the prompt alone, in a cache that holds nothing else of use."""
    return plain(family).generate([Request(prompt)], params)[0].token_ids


def ask(
    used: Engine, *prompts: list[int], params: SamplingParams = GREEDY, family: str = "llama"
) -> list[Completion]:
    completions = used.generate([Request(prompt) for prompt in prompts], params)
    for prompt, completion in zip(prompts, completions, strict=True):
        assert completion.token_ids == expected(family, tuple(prompt), params)
        assert completion.stats.prompt_tokens == len(prompt)
    return completions


def reused(completions: list[Completion]) -> list[int]:
    return [completion.stats.reused_tokens for completion in completions]


class Readings:
    """Counts the queries of prompt reading and the copies between slots."""

    def __init__(self, target: Target, patched: pytest.MonkeyPatch) -> None:
        self.num_queries = self.num_copies = 0
        read, copy = target.read, target.copy_shared

        def counted_read(batch: Pass) -> None:
            self.num_queries += batch.tokens.numel()
            read(batch)

        def counted_copy(source_slot: int, slot: int, num_tokens: int) -> None:
            self.num_copies += 1
            copy(source_slot, slot, num_tokens)

        patched.setattr(target, "read", counted_read)
        patched.setattr(target, "copy_shared", counted_copy)


# -- one request after another ------------------------------------------------------------------------


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_growing_chat_reads_only_its_new_turns_and_moves_nothing(
    params: SamplingParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = engine()
    seen = Readings(used.target, monkeypatch)
    chat = list(DOCUMENTS[0])
    held = 0
    for turn in range(4):
        (completion,) = ask(used, chat, params=params)
        assert completion.stats.reused_tokens == held
        # All but the last token that was written.
        held = len(chat) + len(completion.token_ids) - 1
        chat += completion.token_ids + repetitive(7, seed=50 + turn)
    assert seen.num_copies == 0
    assert used.target.cache.num_slots == 1
    assert used.stats.prompt_tokens - used.stats.reused_tokens == 40 + 3 * 8
    assert used.stats.reused_tokens > 150


def test_asking_the_same_again_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    used = engine()
    ask(used, DOCUMENTS[0])
    seen = Readings(used.target, monkeypatch)
    for params in (GREEDY, SAMPLED):
        assert reused(ask(used, DOCUMENTS[0], params=params)) == [39]
    assert (seen.num_queries, seen.num_copies) == (0, 0)


def test_a_text_rolled_back_keeps_what_still_stands() -> None:
    used = engine()
    (first,) = ask(used, DOCUMENTS[0])
    assert reused(ask(used, [*DOCUMENTS[0], *first.token_ids[:2], 77])) == [42]
    assert reused(ask(used, [*DOCUMENTS[0], *first.token_ids[:1], 78, 79])) == [41]
    assert len(used._slots.parked) == 1


def test_documents_that_take_turns_all_stay() -> None:
    used = engine(prefix_rows=3)
    text: list[int] = []
    for turn in range(9):
        document = [*DOCUMENTS[turn % 3], *text]
        (completion,) = ask(used, document)
        if turn >= 3:
            # The last two turns' texts are new to this document's row.
            assert completion.stats.reused_tokens >= len(DOCUMENTS[turn % 3])
        text += completion.token_ids[:2]
    assert used.target.cache.num_slots <= 4


def test_a_common_beginning_is_copied_where_taking_it_would_lose_much() -> None:
    used = engine()
    shared = common_prefix(DOCUMENTS[0], DOCUMENTS[2])
    ask(used, DOCUMENTS[0])
    assert reused(ask(used, DOCUMENTS[2])) == [shared]
    assert reused(ask(used, DOCUMENTS[0])) == [39]
    assert reused(ask(used, DOCUMENTS[2])) == [44]


def test_the_row_used_least_recently_leaves_first() -> None:
    used = engine(prefix_rows=2)
    first, second, third = (repetitive(30, seed=60 + i) for i in range(3))
    for document in (first, second, first, third):
        ask(used, document)
    assert len(used._slots.parked) == 2
    assert reused(ask(used, first)) == [29]
    assert reused(ask(used, second)) == [0]


@pytest.mark.parametrize("family", ["mistral", "gemma3", "gpt2", "opt"])
def test_windows_and_learned_positions_stay_exact(family: str) -> None:
    used = engine(family)
    (first,) = ask(used, DOCUMENTS[0], family=family)
    (second,) = ask(used, [*DOCUMENTS[0], *first.token_ids, 50, 51], params=SAMPLED, family=family)
    (third,) = ask(used, [*DOCUMENTS[0][:32], 60], family=family)
    assert reused([first, second, third]) == [0, 45, 32]


def test_a_text_in_chunks_goes_on_in_the_middle_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    used = engine()
    monkeypatch.setattr(used.target, "prefill_chunk", 16)
    ask(used, DOCUMENTS[0])
    ask(
        used,
        [*DOCUMENTS[0], *repetitive(37, seed=9)],
        [*DOCUMENTS[0][:30], *repetitive(21, seed=8)],
        DOCUMENTS[1],
    )


# -- batches ------------------------------------------------------------------------------------------


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


# -- sequences of everything --------------------------------------------------------------------------


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


# -- failures -----------------------------------------------------------------------------------------


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


# -- encoder-decoder models, switches, parts ----------------------------------------------------------


@pytest.mark.parametrize("family", ["t5", "bart", "bart-stock", "mbart"])
def test_an_equal_source_keeps_its_encoder_output(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = engine(family, prefix_rows=3)
    source, other = DOCUMENTS[0], DOCUMENTS[1]
    ask(used, source, family=family)
    with monkeypatch.context() as patched:

        def encode(*args: object) -> None:
            raise AssertionError("the source was encoded again")

        patched.setattr(used.target, "join", encode)
        assert reused(ask(used, source, params=SAMPLED, family=family)) == [40]
    assert reused(ask(used, source, other, source[:-1], family=family)) == [40, 0, 0]
    assert reused(ask(used, other, source, family=family)) == [30, 40]


def test_encoder_decoder_models_park_nothing_unless_asked() -> None:
    for used in (engine("t5"), engine("llama", prefix_rows=0)):
        family = "t5" if used.target.is_encoder_decoder else "llama"
        assert reused(ask(used, DOCUMENTS[0], DOCUMENTS[0], family=family)) == [0, 0]
        assert reused(ask(used, DOCUMENTS[0], family=family)) == [0]
        assert used.stats.prompt_tokens == 120
        assert used.stats.reused_tokens == 0
    with pytest.raises(ValueError, match="prefix_rows=-1"):
        engine(prefix_rows=-1)


@given(
    shared=st.integers(0, 200),
    first=st.lists(st.integers(0, 1), max_size=9),
    second=st.lists(st.integers(0, 1)),
)
def test_the_common_prefix_is_as_long_as_tokens_agree(
    shared: int, first: list[int], second: list[int]
) -> None:
    one, two = [7] * shared + first, [7] * shared + second
    agreeing = takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False))
    assert common_prefix(one, two) == len(list(agreeing))


def test_a_row_replaces_the_parked_one_that_it_grew_from() -> None:
    parked = ParkedRows(2)
    for slot, tokens in enumerate([list(range(20)), list(range(50, 80))]):
        parked.make_room(tokens, common_prefix)
        parked.add(Held(slot, tokens))
    parked.make_room(list(range(25)), common_prefix)
    assert [row.slot for row in parked] == [1]
    assert [parked.free_slot(start) for start in (0, 1, 2)] == [0, 2, 2]
