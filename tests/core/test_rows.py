"""Rows join, leave, are streamed, cancelled and shared by threads without touching each other."""

from __future__ import annotations

import dataclasses
import gc
import threading
from collections.abc import Sequence as Seq

import pytest
import torch

from core import Engine, Request, SamplingParams
from core.budget import FixedBudget
from core.types import DraftTree
from tests.core.dictation import Failing
from tests.core.engines import KINDS, PROMPT, engine, tokens_of, varied
from tests.core.models import target_of, word_tokenizer
from tests.core.scripted import Scripted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_rows", [1, 3, 32])
def test_completions_come_in_the_order_of_the_requests(kind: str, max_rows: int) -> None:
    asked = varied(8)
    alone = engine(KINDS[kind], "none")
    expected = [tokens_of(alone.generate([request]))[0] for request in asked]
    assert tokens_of(engine(KINDS[kind], max_rows=max_rows).generate(asked)) == expected


def test_greedy_and_sampled_rows_share_a_batch_without_touching_each_other() -> None:
    asked = [dataclasses.replace(r, prompt=PROMPT) for r in varied(4)]
    alone = engine("llama", "none")
    expected = [tokens_of(alone.generate([request]))[0] for request in asked]
    assert tokens_of(engine("llama", "none").generate(asked)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_closing_a_stream_frees_its_row(kind: str) -> None:
    plain = engine(KINDS[kind], "none")
    (truth,) = plain.generate([Request(PROMPT)])
    oracle = Scripted({tuple(PROMPT): truth.token_ids}, size=2)
    streaming = Engine(target_of(KINDS[kind]), word_tokenizer(), oracle, budget=FixedBudget(2))
    never_started = streaming.stream(Request(PROMPT))
    first, second = (streaming.stream(Request(PROMPT)) for _ in range(2))
    next(first)
    next(second)
    assert len(streaming.running) == len(oracle.alive) == 2
    first.close()
    assert len(streaming.running) == len(oracle.alive) == 1
    rest = "".join(second)
    assert truth.text.endswith(rest)
    never_started.close()
    assert not streaming.running
    assert not oracle.alive
    assert not streaming._streams
    assert "".join(streaming.stream(Request(PROMPT))) == truth.text


def test_taken_pieces_of_a_queued_row_make_up_its_text() -> None:
    used = engine()
    row = used.add(Request(PROMPT))
    pieces = []
    while row.finish_reason is None:
        used.step()
        pieces.append(used.take(row))
    assert len([piece for piece in pieces if piece]) > 1
    assert "".join(pieces) == used.completion(row).text
    cancelled = used.add(Request(PROMPT))
    used.cancel(cancelled)
    assert used.take(cancelled) == ""


def test_a_finished_row_leaves_nothing_behind() -> None:
    used = engine("bart")
    used.generate(varied(6))
    "".join(used.stream(varied(1)[0]))
    with pytest.raises(RuntimeError, match="broke"):
        used.generate([*varied(3), Request(PROMPT, transform=Failing(9))])
    assert not used.running
    assert not used._waiting
    assert not used._streams
    assert not used.drafter._rows


def test_a_cancelled_row_has_no_completion() -> None:
    used = engine()
    waiting, running = used.add(Request(PROMPT)), used.add(Request(PROMPT))
    used.cancel(waiting)
    used.step()
    used.cancel(running)
    used.cancel(running)
    for row in (waiting, running):
        assert row.finish_reason == "cancelled"
        with pytest.raises(ValueError, match="cancelled"):
            used.completion(row)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_share_an_engine_get_what_they_would_get_alone(kind: str) -> None:
    asked = varied(6)
    alone = engine(KINDS[kind], "none")
    expected = [alone.generate([request])[0].text for request in asked]
    shared = engine(KINDS[kind], max_rows=4)
    got: dict[int, str] = {}
    start = threading.Barrier(len(asked))

    def work(i: int) -> None:
        start.wait()
        if i % 3 == 2:
            got[i] = shared.generate([asked[i]])[0].text
        else:
            got[i] = "".join(shared.stream(asked[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [got.get(i) for i in range(len(asked))] == expected
    assert not shared.running


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_in_a_transform_leaves_the_engine_usable(kind: str) -> None:
    asked = varied(3)
    endless = engine(KINDS[kind])
    endless.target.eos_token_ids = frozenset()
    expected = tokens_of(endless.generate(asked))
    used = engine(KINDS[kind])
    used.target.eos_token_ids = frozenset()
    bystander = used.add(Request(PROMPT, params=SamplingParams(max_new_tokens=200)))
    used.step()
    start = len(PROMPT) if kind == "decoder-only" else 1
    broken = Request(PROMPT, params=SamplingParams(max_new_tokens=20), transform=Failing(start + 3))
    with pytest.raises(RuntimeError, match="broke"):
        used.generate([broken])
    with pytest.raises(RuntimeError, match="broke"):
        list(used.stream(broken))
    assert used.running == [bystander]
    assert tokens_of(used.generate(asked)) == expected
    while bystander.finish_reason is None:
        used.step()
    (told,) = endless.generate([bystander.request])
    assert used.completion(bystander).token_ids == told.token_ids


def test_a_prompt_that_cannot_be_read_does_not_take_the_others_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = engine()
    bystander = used.add(Request(PROMPT, params=SamplingParams(max_new_tokens=12)))
    used.step()

    def out_of_memory(*args: object) -> list[int]:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patched:
        patched.setattr(used.target, "join", out_of_memory)
        with pytest.raises(RuntimeError, match="out of memory"):
            used.generate(varied(2))
    assert used.running == [bystander]
    while bystander.finish_reason is None:
        used.step()
    assert (
        used.completion(bystander).token_ids
        == tokens_of(engine("llama", "none").generate([Request(PROMPT)], SamplingParams(max_new_tokens=12)))[
            0
        ]
    )


class Collecting:
    """Runs the garbage collector once, in the middle of a step."""

    needs_hidden = False

    def __init__(self) -> None:
        self._is_due = True

    def apply(
        self, logits: torch.Tensor, prefix: Seq[int], tree: DraftTree, hidden: torch.Tensor | None
    ) -> torch.Tensor:
        if self._is_due:
            gc.collect()
        self._is_due = False
        return logits


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_stream_that_is_collected_in_a_step_frees_its_row_and_touches_no_other(kind: str) -> None:
    expected = tokens_of(engine(KINDS[kind], "none").generate([Request(PROMPT), *varied(2)]))
    used = engine(KINDS[kind])

    def lose_a_stream() -> None:
        pieces = used.stream(Request(PROMPT, params=SamplingParams(max_new_tokens=200)))
        next(pieces)
        cycle: list[object] = [pieces]
        cycle.append(cycle)

    gc.disable()
    try:
        lose_a_stream()
        assert len(used.running) == 1
        asked = [Request(PROMPT, transform=Collecting()), *varied(2)]
        assert tokens_of(used.generate(asked)) == expected
    finally:
        gc.enable()
    assert not used.running
    assert not used._streams
    assert not used.drafter._rows


@pytest.mark.parametrize("kind", KINDS)
def test_two_engines_over_one_target_take_turns_but_never_overwrite_each_other(kind: str) -> None:
    (expected,) = engine(KINDS[kind], "none").generate([Request(PROMPT)])
    target = target_of(KINDS[kind])
    first, second = (
        Engine(target, word_tokenizer(), name, budget=FixedBudget(9)) for name in ("copy", "none")
    )
    assert first.generate([Request(PROMPT)])[0].token_ids == expected.token_ids
    pieces = first.stream(Request(PROMPT))
    text = next(pieces)
    with pytest.raises(RuntimeError, match="another engine has 1 rows running"):
        second.generate(varied(2))
    assert not second._waiting
    assert text + "".join(pieces) == expected.text
    assert second.generate([Request(PROMPT)])[0].token_ids == expected.token_ids


def test_an_engine_that_is_gone_leaves_its_target_to_others() -> None:
    target = target_of("llama")
    forgotten = Engine(target, word_tokenizer(), "copy", budget=FixedBudget(9))
    forgotten.add(Request(PROMPT))
    forgotten.step()
    del forgotten
    gc.collect()
    assert Engine(target, word_tokenizer(), "none").generate([Request(PROMPT)])[0].token_ids
