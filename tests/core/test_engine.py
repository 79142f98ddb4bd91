"""What callers of the engine rely on: text, stops, limits, errors, streams, threads, statistics."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import Completion, Engine, Request, SamplingParams
from core.budget import FixedBudget
from core.loading import pick_device, pick_dtype
from core.packing import Pass
from core.targets.base import PassOutput
from core.text import TextStream
from tests.core.dictation import Dictation, Failing
from tests.core.models import (
    BYTE_VOCAB,
    EOS,
    FIRST_WORD,
    build,
    byte_tokenizer,
    repetitive,
    target_of,
    word_tokenizer,
)
from tests.core.scripted import Scripted

KINDS = {"decoder-only": "llama", "encoder-decoder": "t5", "lean": "bart"}
PROMPT = repetitive(12, seed=0)


def engine(family: str = "llama", drafter: str = "copy", **options: object) -> Engine:
    return Engine(target_of(family), word_tokenizer(), drafter, budget=FixedBudget(9), **options)


@pytest.fixture(scope="module")
def bytewise() -> Engine:
    """An engine whose tokens are bytes."""
    return Engine(target_of("llama", vocab_size=BYTE_VOCAB), byte_tokenizer(), "copy", budget=FixedBudget(9))


def dictated(text: str, stop: tuple[str, ...] = (), echo: bool = True) -> Request:
    """A request whose output is `text`, drafted well if `echo`."""
    script = byte_tokenizer().encode(text, add_special_tokens=False)
    params = SamplingParams(stop=stop, max_new_tokens=200)
    return Request(
        PROMPT,
        sources=(script,) if echo else (),
        prediction=script if echo else None,
        params=params,
        transform=Dictation(script, len(PROMPT)),
    )


# -- text and stop strings ----------------------------------------------------------------------------


@pytest.mark.parametrize("echo", [True, False])
@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ("one two STOP three", ("STOP",), "one two "),
        ("one STO STOP", ("STOP",), "one STO "),
        ("aaab", ("aab",), "a"),
        ("no stop here", ("absent",), "no stop here"),
        ("ends in the middle of ST", ("STOP",), "ends in the middle of ST"),
        ("the first and the second", ("second", "and"), "the first "),
        ("the first and the second", ("nd the", " and"), "the first"),
        ("STOP at once", ("STOP",), ""),
        ("grüße 🦜🦜 end", ("🦜🦜",), "grüße "),
        ("grüße 🦜 end", ("🦜🦜",), "grüße 🦜 end"),
    ],
)
def test_the_text_ends_before_the_first_stop_string(
    bytewise: Engine, text: str, stop: tuple[str, ...], expected: str, echo: bool
) -> None:
    request = dictated(text, stop, echo)
    (completion,) = bytewise.generate([request])
    assert completion.text == expected
    assert completion.finish_reason == "stop"
    pieces = list(bytewise.stream(request))
    assert "".join(pieces) == expected
    assert all(pieces)


def test_of_two_stop_strings_that_one_token_completes_the_earlier_counts(bytewise: Engine) -> None:
    # " and" is one token of this vocabulary.
    (completion,) = bytewise.generate([dictated("this and that", ("nd", " an"))])
    assert completion.text == "this"


def test_no_drafter_writes_past_a_stop_string(bytewise: Engine) -> None:
    request = dictated("one two STOP three four", ("STOP",))
    (completion,) = bytewise.generate([request])
    text = byte_tokenizer().decode(completion.token_ids)
    assert text.startswith("one two STOP")
    assert len(text) == len("one two STOP")


def test_any_of_several_end_tokens_ends_the_text() -> None:
    for family in KINDS.values():
        plain = engine(family, "none")
        plain.target.eos_token_ids = frozenset()
        (long,) = plain.generate([Request(PROMPT)], SamplingParams(max_new_tokens=30))
        ends = {long.token_ids[9], long.token_ids[14]}
        stopping = engine(family)
        stopping.target.eos_token_ids = frozenset(ends)
        (short,) = stopping.generate([Request(PROMPT)], SamplingParams(max_new_tokens=30))
        first = next(i for i, token in enumerate(long.token_ids) if token in ends)
        assert short.token_ids == long.token_ids[: first + 1]
        assert short.finish_reason == "stop"


def test_end_tokens_come_from_the_generation_config() -> None:
    from core.targets.registry import target_for

    model = build("llama")
    model.generation_config.eos_token_id = [7, 9]
    assert target_for(model).eos_token_ids == {7, 9}


BYTES = st.integers(FIRST_WORD, BYTE_VOCAB - 1)
SNIPPETS = st.sampled_from(["é", "🦜", "👩‍🚀", "日本", " the", " and", "a", "\n", "S", "ST", "STOP", "TOP"])


@st.composite
def token_runs(draw: st.DrawFn) -> list[list[int]]:
    """Runs of tokens as steps would bring them: real text, broken characters, specials."""
    ids: list[int] = []
    for _ in range(draw(st.integers(0, 12))):
        if draw(st.booleans()):
            text = draw(st.lists(SNIPPETS, min_size=1, max_size=12))
            ids += byte_tokenizer().encode("".join(text), add_special_tokens=False)
        else:
            ids += draw(st.lists(st.one_of(BYTES, st.integers(0, 3)), max_size=6))
    runs = []
    while ids:
        size = draw(st.integers(1, 9))
        runs.append(ids[:size])
        ids = ids[size:]
    return runs


@given(runs=token_runs(), stop=st.sampled_from([(), ("STOP",), ("TOP", "ST\n"), ("🦜a",), ("日本", "é")]))
@settings(deadline=None, max_examples=300)
def test_streamed_pieces_make_up_the_decoded_text(runs: list[list[int]], stop: tuple[str, ...]) -> None:
    stream = TextStream(byte_tokenizer(), stop)
    pieces: list[str] = []
    taken: list[int] = []
    for run in runs:
        for token in run:
            taken.append(token)
            if ended := stream.push(token):
                break
        pieces.append(stream.take(finished=ended))
        if ended:
            break
    pieces.append(stream.take(finished=True))
    whole = byte_tokenizer().decode(taken, skip_special_tokens=True)
    places = [place for place in (whole.find(s) for s in stop) if place >= 0]
    expected = whole[: min(places)] if places else whole
    assert stream.text == expected
    assert "".join(pieces) == expected


@given(text=st.text(max_size=60), size=st.integers(1, 7))
@settings(deadline=None)
def test_a_streamed_piece_never_holds_half_a_character(text: str, size: int) -> None:
    ids = byte_tokenizer().encode(text, add_special_tokens=False)
    stream = TextStream(byte_tokenizer())
    shown = ""
    for start in range(0, len(ids), size):
        for token in ids[start : start + size]:
            stream.push(token)
        shown += stream.take()
        assert text.startswith(shown)
    assert shown + stream.take(finished=True) == text


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_streaming_random_bytes_gives_the_text_of_the_completion(
    bytewise: Engine, temperature: float
) -> None:
    params = SamplingParams(temperature=temperature, max_new_tokens=150, seed=4)
    bytewise.target.eos_token_ids = frozenset()
    (completion,) = bytewise.generate([Request(PROMPT)], params)
    assert "".join(bytewise.stream(Request(PROMPT), params)) == completion.text
    assert completion.text == byte_tokenizer().decode(completion.token_ids, skip_special_tokens=True)
    bytewise.target.eos_token_ids = frozenset({EOS})


# -- limits and errors --------------------------------------------------------------------------------


def test_nothing_asked_is_nothing_answered() -> None:
    assert engine().generate([]) == []


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt", "mistral"])
def test_the_context_limit_cuts_the_output_and_refuses_what_leaves_no_room(family: str) -> None:
    limited = Engine(
        target_of(family, max_position_embeddings=24)
        if family != "gpt2"
        else target_of(family, n_positions=24),
        word_tokenizer(),
        "copy",
        budget=FixedBudget(9),
    )
    limited.target.eos_token_ids = frozenset()
    for length in (23, 20, 9):
        (completion,) = limited.generate([Request(repetitive(length, seed=0))])
        assert len(completion.token_ids) == 24 - length
        assert completion.finish_reason == "length"
    for length in (24, 40):
        with pytest.raises(ValueError, match=f"{length} tokens.*24"):
            limited.generate([Request(repetitive(length, seed=0))])
    assert not limited.running


@pytest.mark.parametrize("family", ["bart", "bart-stock"])
def test_a_source_longer_than_the_encoder_is_refused_with_the_numbers(family: str) -> None:
    limited = Engine(target_of(family, max_position_embeddings=24), word_tokenizer(), budget=FixedBudget(9))
    limited.target.eos_token_ids = frozenset()
    (completion,) = limited.generate([Request(repetitive(24, seed=0))])
    assert len(completion.token_ids) == 23
    with pytest.raises(ValueError, match=r"25 tokens.*24"):
        limited.generate([Request(repetitive(25, seed=0))])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prompt", ["", []])
def test_an_empty_prompt_is_an_error_that_says_so(kind: str, prompt: str | list[int]) -> None:
    asked = engine(KINDS[kind])
    with pytest.raises(ValueError, match="prompt is empty"):
        asked.generate([Request(PROMPT), Request(prompt)])
    assert not asked.running
    assert len(asked.generate([Request(PROMPT)])) == 1


def test_parameters_out_of_range_name_the_value() -> None:
    for wrong in (
        {"temperature": -1},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_p": 0},
        {"top_p": 1.5},
        {"min_p": 2},
        {"max_new_tokens": 0},
    ):
        ((name, value),) = wrong.items()
        with pytest.raises(ValueError, match=f"{name}={value}"):
            SamplingParams(**wrong)
    with pytest.raises(ValueError, match="stop string is empty"):
        SamplingParams(stop=("",))
    assert SamplingParams(stop="END").stop == ("END",)
    with pytest.raises(ValueError, match="1 source_weights for 2 sources"):
        Request("a", sources=("b", "c"), source_weights=(1.0,))


def test_unknown_names_are_refused_with_the_choices(tmp_path: Path) -> None:
    target = target_of("llama")
    with pytest.raises(ValueError, match=r"'psychic'.*copy.*none"):
        Engine(target, word_tokenizer(), "psychic")
    with pytest.raises(ValueError, match=r"'lenient'.*exact.*typical"):
        Engine(target, word_tokenizer(), "none", verification="lenient")
    with pytest.raises(ValueError, match="max_rows=0"):
        Engine(target, word_tokenizer(), "none", max_rows=0)
    with pytest.raises(ValueError, match=r"'toaster'.*cpu"):
        pick_device("toaster")
    with pytest.raises(ValueError, match=r"'mps'.*cpu"):
        pick_device("mps")
    with pytest.raises(ValueError, match=r"'float3'.*float32"):
        pick_dtype("float3", torch.device("cpu"))
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"'cuda'.*no CUDA"):
            pick_device("cuda")
    with pytest.raises(ValueError, match=r"no model folder at './nowhere'"):
        Engine.from_pretrained("./nowhere")
    with pytest.raises(ValueError, match=r"no config\.json"):
        Engine.from_pretrained(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_is_loaded_and_writes_the_same(kind: str, tmp_path: Path) -> None:
    model = build(KINDS[kind], torch.float32)
    model.save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    loaded = Engine.from_pretrained(tmp_path, drafter="copy", dtype="float64")
    prompt = " ".join(f"w{token}" for token in PROMPT)
    (from_text,) = loaded.generate([Request(prompt)], SamplingParams(max_new_tokens=20))
    (from_ids,) = loaded.generate([Request(PROMPT)], SamplingParams(max_new_tokens=20))
    target = target_of(KINDS[kind], torch.float32)
    (direct,) = Engine(target, word_tokenizer(), "none").generate(
        [Request(PROMPT)], SamplingParams(max_new_tokens=20)
    )
    assert from_text.token_ids == from_ids.token_ids == direct.token_ids
    assert from_text.text == word_tokenizer().decode(direct.token_ids, skip_special_tokens=True)


# -- rows, streams, threads ---------------------------------------------------------------------------


def tokens_of(completions: list[Completion]) -> list[list[int]]:
    return [completion.token_ids for completion in completions]


def varied(count: int) -> list[Request]:
    return [
        Request(
            repetitive(5 + 7 * i % 23, seed=i),
            params=SamplingParams(temperature=0.7 * (i % 2), seed=i, max_new_tokens=10 + 3 * i),
        )
        for i in range(count)
    ]


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


# -- rules and statistics -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_speculative_sampling_at_temperature_zero_writes_the_greedy_tokens(kind: str) -> None:
    asked = [Request(repetitive(9 + i, seed=i), prediction=repetitive(30, seed=i)) for i in range(4)]
    params = SamplingParams(max_new_tokens=25)
    expected = tokens_of(engine(KINDS[kind], "none").generate(asked, params))
    rule = engine(KINDS[kind], verification="speculative_sampling")
    assert tokens_of(rule.generate(asked, params)) == expected


@pytest.mark.parametrize("verification", ["exact", "speculative_sampling", "typical", "top_beta"])
def test_every_rule_runs_and_keeps_its_books(verification: str) -> None:
    asked = varied(5)
    used = engine("llama", verification=verification)
    completions = used.generate(asked)
    for completion, request in zip(completions, asked, strict=True):
        stats = completion.stats
        assert stats.emitted == len(completion.token_ids) <= request.params.max_new_tokens
        assert 1 <= stats.target_calls <= stats.emitted
        assert 0 <= stats.accepted <= min(stats.drafted, stats.emitted)
        assert stats.tokens_per_call == stats.emitted / stats.target_calls
    for name in ("drafted", "accepted", "emitted"):
        assert getattr(used.stats, name) == sum(getattr(c.stats, name) for c in completions)
    assert max(c.stats.target_calls for c in completions) <= used.stats.target_calls
    seconds = used.stats.seconds
    assert seconds.total >= seconds.forward > 0


def test_plain_decoding_drafts_nothing() -> None:
    (completion,) = engine("llama", "none").generate([Request(PROMPT)], SamplingParams(max_new_tokens=9))
    stats = completion.stats
    assert (stats.drafted, stats.accepted, stats.target_calls) == (0, 0, len(completion.token_ids))


def jittery(used: Engine) -> Engine:
    """Passes over more than one token or row come out a little different, as on a real device."""
    forward = used.target.forward
    generator = torch.Generator().manual_seed(5)

    def perturbed(batch: Pass, *, need_hidden: bool = False) -> PassOutput:
        output = forward(batch, need_hidden=need_hidden)
        if batch.tokens.numel() == 1:
            return output
        noise = torch.randn(output.logits.shape, generator=generator, dtype=torch.float64) * 0.03
        return dataclasses.replace(output, logits=output.logits + noise.clamp(-0.09, 0.09))

    used.target.forward = perturbed
    return used


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("kind", KINDS)
def test_the_near_tie_guard_undoes_what_rounding_did(kind: str, temperature: float) -> None:
    asked = [
        Request(
            repetitive(6 + 3 * i, seed=i),
            prediction=repetitive(30, seed=i),
            params=SamplingParams(temperature=temperature, seed=i, max_new_tokens=60),
        )
        for i in range(6)
    ]
    plain = engine(KINDS[kind], "none")
    plain.target.eos_token_ids = frozenset()
    expected = [plain.generate([request])[0] for request in asked]
    truth = {tuple(r.prompt): c.token_ids for r, c in zip(asked, expected, strict=True)}

    def run(exact: bool) -> tuple[Engine, list[Completion]]:
        target = target_of(KINDS[kind])
        target.eos_token_ids = frozenset()
        oracle = Scripted(truth)
        used = Engine(target, word_tokenizer(), oracle, budget=FixedBudget(9), exact=exact, near_tie_gap=0.19)
        return used, jittery(used).generate(asked)

    assert tokens_of(run(exact=False)[1]) != tokens_of(expected), "the jitter is too small to matter"
    guarded, completions = run(exact=True)
    assert tokens_of(completions) == tokens_of(expected)
    near_ties = sum(c.stats.near_ties for c in completions)
    changes = sum(c.stats.near_tie_changes for c in completions)
    assert 0 < changes < near_ties < guarded.stats.emitted
    assert (guarded.stats.near_ties, guarded.stats.near_tie_changes) == (near_ties, changes)
    for completion in completions:
        assert completion.stats.emitted == len(completion.token_ids)
        assert completion.stats.target_calls <= completion.stats.emitted
