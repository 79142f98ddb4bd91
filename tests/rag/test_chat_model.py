"""What callers of `ChatEchodraft` rely on beyond LangChain's standard tests."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from rag_engines import DictatingEngine

from apps.rag import ChatEchodraft
from apps.rag.engines import EngineSettings, engine_for
from core import Request, SamplingParams

QUESTION = [SystemMessage("Answer."), HumanMessage("Who went to school?")]


def dictating(text: str, **options: Any) -> tuple[ChatEchodraft, DictatingEngine]:
    engine = DictatingEngine(text)
    return ChatEchodraft(engine=engine, **options), engine


def test_answers_are_plain_decoding_of_the_rendered_prompt(chat_folder: Path) -> None:
    engine = engine_for(EngineSettings(str(chat_folder), "none")).engine
    rendered = engine.tokenizer.apply_chat_template(
        [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Who went to school?"}],
        tokenize=False,
        add_generation_prompt=True,
    )
    ids = engine.tokenizer.encode(rendered, add_special_tokens=False)
    (expected,) = engine.generate([Request(ids)], SamplingParams(max_new_tokens=30))
    model = ChatEchodraft(model=str(chat_folder), max_tokens=30)
    answer = model.invoke(QUESTION)
    assert answer.content == expected.text
    assert answer.usage_metadata == {
        "input_tokens": len(ids),
        "output_tokens": len(expected.token_ids),
        "total_tokens": len(ids) + len(expected.token_ids),
    }
    sampled = model.bind(temperature=0.8, seed=5)
    assert sampled.invoke(QUESTION, sources=[expected.text]).content == sampled.invoke(QUESTION).content


def test_neither_sources_nor_a_prediction_change_the_answer_but_they_save_passes() -> None:
    text = "Anna went to the old school by the river."
    model, _ = dictating(text)
    alone = model.invoke(QUESTION)
    helped = model.invoke(QUESTION, sources=[f"It is said: {text}"], source_weights=[1.0])
    guessed = model.invoke(QUESTION, prediction=text)
    assert alone.content == helped.content == guessed.content == text
    passes = [message.response_metadata["target_calls"] for message in (alone, helped, guessed)]
    assert passes[1] < passes[0]
    assert passes[2] < passes[0]
    assert helped.response_metadata["accepted"] > 0
    assert helped.response_metadata["finish_reason"] == "stop"


def test_the_answer_ends_before_a_stop_string_of_several_tokens() -> None:
    model, _ = dictating("one two\n\nQuestion: three")
    assert model.invoke("Count.", stop=["\n\nQuestion:"]).content == "one two"
    assert ChatEchodraft(engine=DictatingEngine("one two"), stop="e t").invoke("Count.").content == "on"
    streamed = "".join(str(chunk.content) for chunk in model.stream("Count.", stop=["\n\nQuestion:"]))
    assert streamed == "one two"


def test_a_stream_gives_the_same_text_usage_and_statistics_as_invoke() -> None:
    model, _ = dictating("Ein kleines Wörterbuch für später.")
    whole = model.invoke(QUESTION)
    chunks = list(model.stream(QUESTION))
    assert len(chunks) > 3
    full = chunks[0]
    for chunk in chunks[1:]:
        full = full + chunk
    assert isinstance(full, AIMessageChunk)
    assert full.content == whole.content
    assert full.usage_metadata == whole.usage_metadata
    assert full.response_metadata["model_name"] == whole.response_metadata["model_name"]
    assert full.response_metadata["finish_reason"] == "stop"


def test_a_batch_shares_the_passes_of_one_engine() -> None:
    model, engine = dictating("a text of some length for all of them", drafter="none")
    answers = model.batch(["first", "second", "third", "fourth"])
    assert [answer.content for answer in answers] == ["a text of some length for all of them"] * 4
    assert engine.stats.target_calls < sum(a.response_metadata["target_calls"] for a in answers)


async def test_coroutines_share_passes_too_and_leave_no_row_behind() -> None:
    model, engine = dictating("a text of some length for all of them")
    answers = await asyncio.gather(*(model.ainvoke(f"question {i}") for i in range(8)))
    assert {answer.content for answer in answers} == {"a text of some length for all of them"}
    passes = sum(answer.response_metadata["target_calls"] for answer in answers)
    assert engine.stats.target_calls < passes / 2
    assert not engine.running
    assert not engine._streams


async def test_the_event_loop_is_free_while_tokens_are_computed() -> None:
    model, engine = dictating("some words")
    engine.gate = threading.Event()
    answering = asyncio.create_task(model.ainvoke("Hello"))
    while not engine.asked:
        await asyncio.sleep(0.01)
    # The step waits for this very line: were it run by the loop, nobody could open the gate.
    engine.gate.set()
    assert (await answering).content == "some words"


async def test_closing_an_asynchronous_stream_frees_its_row() -> None:
    model, engine = dictating("a long text that nobody will read to its end")
    stream = model.astream("Hello")
    assert (await anext(stream)).content
    assert engine.running
    await stream.aclose()
    await asyncio.wrap_future(model.shared_engine().turns._thread.submit(lambda: None))
    assert not engine.running
    assert not engine._streams


async def test_a_cancelled_call_frees_its_row() -> None:
    model, engine = dictating("a long text that nobody will read to its end")
    engine.gate = threading.Event()
    answering = asyncio.create_task(model.ainvoke("Hello"))
    while not engine.asked:
        await asyncio.sleep(0.01)
    answering.cancel()
    engine.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await answering
    await asyncio.wrap_future(model.shared_engine().turns._thread.submit(lambda: None))
    assert not engine.running
    assert not engine._waiting


async def test_an_error_of_the_engine_reaches_every_coroutine_that_waits() -> None:
    model, engine = dictating("words")
    engine.breaks = True
    told = await asyncio.gather(*(model.ainvoke("Hello") for _ in range(3)), return_exceptions=True)
    assert [str(error) for error in told] == ["the engine broke"] * 3


def test_leaving_a_stream_early_frees_its_row() -> None:
    model, engine = dictating("a long text that nobody will read to its end")
    stream = model.stream("Hello")
    next(stream)
    assert engine.running
    stream.close()
    assert not engine.running


def test_an_answer_that_takes_longer_than_its_timeout_is_an_error() -> None:
    model, engine = dictating("a long text that nobody will read to its end", timeout=0.0)
    with pytest.raises(TimeoutError, match="timeout=0"):
        model.invoke("Hello")
    assert not engine.running


def test_the_conversation_goes_through_the_chat_template_and_is_not_echoed(chat_folder: Path) -> None:
    model = ChatEchodraft(model=str(chat_folder), max_tokens=12)
    tokenizer = model.shared_engine().engine.tokenizer
    turns = [*QUESTION, AIMessage("Anna."), HumanMessage("When?")]
    rendered = tokenizer.apply_chat_template(
        [
            {"role": "system", "content": "Answer."},
            {"role": "user", "content": "Who went to school?"},
            {"role": "assistant", "content": "Anna."},
            {"role": "user", "content": "When?"},
        ],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert model.num_prompt_tokens(turns) == len(tokenizer.encode(rendered, add_special_tokens=False))
    answer = str(model.invoke(turns).content)
    assert "school" not in answer
    assert "<|" not in answer


def test_a_local_folder_never_asks_the_network(chat_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert ChatEchodraft(model=str(chat_folder), max_tokens=3, max_rows=3).invoke("Hello").content


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": "./nowhere"}, "no model at './nowhere'"),
        ({"model": __file__}, "is a file"),
        ({"model": str(Path(__file__).parent)}, "config.json"),
        ({"temperature": -1}, "temperature=-1"),
        ({"max_tokens": 0}, "max_new_tokens=0"),
        ({"beams": 4}, "beams"),
    ],
)
def test_wrong_settings_are_told_at_once(settings: dict[str, Any], words: str, chat_folder: Path) -> None:
    with pytest.raises(ValueError, match=words):
        ChatEchodraft(**{"model": str(chat_folder), **settings})


def test_options_that_do_not_exist_and_messages_that_cannot_be_read_are_errors() -> None:
    model, _ = dictating("words")
    with pytest.raises(ValueError, match="unknown option 'beams'"):
        model.invoke("Hello", beams=4)
    with pytest.raises(ValueError, match="'image_url'"):
        model.invoke([HumanMessage([{"type": "image_url", "image_url": {"url": "x"}}])])
    with pytest.raises(ValueError, match="no messages"):
        model.invoke([])
    with pytest.raises(ValueError, match="2 source_weights for 1 sources"):
        model.invoke("Hello", sources=["a"], source_weights=[1, 2])


def test_tools_are_not_offered_by_a_model_whose_template_has_none() -> None:
    model, _ = dictating("words")
    with pytest.raises(NotImplementedError):
        model.bind_tools([])


def test_another_model_answers_for_one_call(chat_folder: Path, tmp_path: Path) -> None:
    from rag_models import save_chat_model

    other = str(save_chat_model(tmp_path / "other", template=None))
    model = ChatEchodraft(model=str(chat_folder), max_tokens=4)
    assert model.invoke("Hello", model=other).response_metadata["model_name"] == other
    assert model.invoke("Hello").response_metadata["model_name"] == str(chat_folder)
