"""Tools are offered where the model's template has them, and calls are read out of the answer."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from rag_engines import DictatingEngine

from apps.rag import ChatEchodraft
from apps.rag.tool_calls import read_calls
from apps.rag.tool_chat_model import ToolChatEchodraft

TEMPLATE = (
    "{% if tools %}{% for t in tools %}{{ t.function.name }} {% endfor %}write <tool_call>{% endif %}"
    "{% for m in messages %}({{ m.role }} {{ m.content }}{{ m.tool_calls or '' }}){% endfor %}"
)
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>'


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def model(text: str) -> tuple[ChatEchodraft, DictatingEngine]:
    engine = DictatingEngine(text)
    engine.tokenizer = copy.deepcopy(engine.tokenizer)
    engine.tokenizer.chat_template = TEMPLATE
    return ChatEchodraft(engine=engine), engine


def calls_of(message: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(call["name"], call["args"]) for call in message.tool_calls]


def test_a_call_is_read_out_of_the_answer_and_its_result_goes_back() -> None:
    asking, engine = model(f"Let me add. {CALL}")
    assert isinstance(asking, ToolChatEchodraft)
    answer = asking.bind_tools([add]).invoke("1 + 2?")
    assert answer.content == "Let me add."
    assert calls_of(answer) == [("add", {"a": 1, "b": 2})]
    asking.bind_tools([add]).invoke([HumanMessage("1 + 2?"), answer, ToolMessage("3", tool_call_id="x")])
    told = engine.tokenizer.decode(engine.asked[-1].prompt)
    assert told.startswith("add write <tool_call>")
    assert "(tool 3)" in told
    assert "'arguments': {'a': 1, 'b': 2}" in told


async def test_streams_carry_the_same_calls() -> None:
    asking, _ = model(CALL)
    bound = asking.bind_tools([add])
    (chunk,) = [chunk for chunk in bound.stream("1 + 2?") if isinstance(chunk, AIMessageChunk)]
    assert calls_of(chunk) == [("add", {"a": 1, "b": 2})]
    assert [calls_of(chunk) async for chunk in bound.astream("1 + 2?")] == [[("add", {"a": 1, "b": 2})]]


def test_a_forced_choice_begins_the_answer() -> None:
    asking, engine = model('{"a": 3, "b": 4}}\n</tool_call>')
    answer = asking.bind_tools([add], tool_choice="add").invoke("3 + 4?")
    assert calls_of(answer) == [("add", {"a": 3, "b": 4})]
    assert engine.tokenizer.decode(engine.asked[-1].prompt).endswith('{"name": "add", "arguments": ')
    with pytest.raises(ValueError, match="names no tool"):
        asking.bind_tools([add], tool_choice="subtract")


def test_without_tools_bound_an_answer_is_text() -> None:
    asking, _ = model("plain words")
    assert asking.invoke("Hello").content == "plain words"
    assert "".join(str(chunk.content) for chunk in asking.stream("Hello")) == "plain words"


@pytest.mark.parametrize(
    ("answer", "text", "calls"),
    [
        ("no call", "no call", []),
        ('{"name": "f", "parameters": {"x": 1}}', "", [("f", {"x": 1})]),
        ('{"x": 1}', '{"x": 1}', []),
        (
            '<tool_call>{"name": "f"}</tool_call><tool_call>{"name": "g", "arguments": {}}',
            "",
            [("f", {}), ("g", {})],
        ),
        ("<tool_call>{broken</tool_call>", "", [("", None)]),
    ],
)
def test_calls_are_told_from_text(answer: str, text: str, calls: list[tuple[str, Any]]) -> None:
    rest, found = read_calls(answer)
    assert rest == text
    assert [(call.name, call.arguments) for call in found] == calls
