"""What a row leaves in the cache changes how much a later prompt costs, and never a token."""

from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import SamplingParams
from core.prefixes import Held, ParkedRows, common_prefix
from tests.core.models import repetitive
from tests.core.reusing import DOCUMENTS, GREEDY, SAMPLED, Readings, ask, engine, reused

pytestmark = pytest.mark.usefixtures("small_limits")


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
