"""Where a text ends, and how it comes in pieces."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core import Engine, Request, SamplingParams
from core.budget import FixedBudget
from core.text import TextStream
from tests.core.dictation import Dictation
from tests.core.engines import KINDS, PROMPT, engine
from tests.core.models import (
    BYTE_VOCAB,
    EOS,
    FIRST_WORD,
    build,
    byte_fallback_tokenizer,
    byte_tokenizer,
    target_of,
)


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
    # Text that names a special token is read as that token, which is never shown.
    assume(not any(name in text for name in byte_tokenizer().all_special_tokens))
    ids = byte_tokenizer().encode(text, add_special_tokens=False)
    stream = TextStream(byte_tokenizer())
    shown = ""
    for start in range(0, len(ids), size):
        for token in ids[start : start + size]:
            stream.push(token)
        shown += stream.take()
        assert text.startswith(shown)
    assert shown + stream.take(finished=True) == text


@pytest.mark.parametrize("text", ["日本語" * 10, "ສະບາຍດີຕອນເຊົ້າຂ້ອຍຊື່ວ່າ" * 2, "ab" * 5 + "👨‍👩‍👧‍👦" * 3])
def test_long_runs_of_characters_in_bytes_are_streamed_whole(text: str) -> None:
    tokenizer = byte_fallback_tokenizer()
    stream = TextStream(tokenizer)
    shown = ""
    for token in tokenizer.encode(text, add_special_tokens=False):
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
