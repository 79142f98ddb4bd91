"""Conversations reach every kind of chat template, and models without one."""

from __future__ import annotations

import copy

import pytest
from transformers import PreTrainedTokenizerFast

from apps.rag.prompts import CHAT_TEMPLATE, Passage, numbered
from apps.rag.templates import PLAIN_STOP, merged, prompt_ids, render
from tests.core.models import BOS, byte_tokenizer

TURNS = "{% for m in messages %}({{ m.role }} {{ m.content }}){% endfor %}"
REFUSING = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    + TURNS
)
DROPPING = "{% for m in messages if m.role != 'system' %}({{ m.role }} {{ m.content }}){% endfor %}"
ALTERNATING = (
    "{% for m in messages %}{% if loop.index0 > 0 and messages[loop.index0 - 1].role == m.role %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}({{ m.role }} {{ m.content }}){% endfor %}"
)
ASKED = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Why?"}]


def tokenizer(template: str | None) -> PreTrainedTokenizerFast:
    made = copy.deepcopy(byte_tokenizer())
    made.chat_template = template
    return made


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        (TURNS, "(system Be short.)(user Why?)"),
        (REFUSING, "(user Be short.\n\nWhy?)"),
        (DROPPING, "(user Be short.\n\nWhy?)"),
        (CHAT_TEMPLATE, "<|system|>Be short.<|end|><|user|>Why?<|end|><|assistant|>"),
    ],
)
def test_the_system_message_reaches_the_model_whatever_the_template(template: str, rendered: str) -> None:
    assert render(tokenizer(template), ASKED) == rendered


def test_neighbours_of_one_role_are_merged_where_the_template_wants_turns_to_alternate() -> None:
    asked = [{"role": "user", "content": "One."}, {"role": "user", "content": "Two."}]
    assert render(tokenizer(ALTERNATING), asked) == "(user One.\n\nTwo.)"
    assert render(tokenizer(TURNS), asked) == "(user One.)(user Two.)"


def test_a_template_that_refuses_everything_is_named() -> None:
    with pytest.raises(ValueError, match="refuses this conversation: never"):
        render(tokenizer("{{ raise_exception('never') }}"), ASKED)


def test_a_model_without_a_template_gets_a_transcript_with_the_tokenizers_own_start() -> None:
    bare = tokenizer(None)
    text = render(
        bare, [*ASKED, {"role": "assistant", "content": "So."}, {"role": "user", "content": "And?"}]
    )
    assert text == "Be short.\n\nUser: Why?\n\nAssistant: So.\n\nUser: And?\n\nAssistant:"
    assert any(stop in "\n\nUser: more" for stop in PLAIN_STOP)
    assert BOS not in prompt_ids(tokenizer(TURNS), "x")


def test_options_and_tools_reach_the_template() -> None:
    made = tokenizer("{{ tools[0].name if tools else 'none' }} {{ enable_thinking }}")
    assert render(made, ASKED[1:], tools=[{"name": "add"}], options={"enable_thinking": False}) == "add False"


def test_merging_loses_no_words() -> None:
    turns = merged([*ASKED, {"role": "system", "content": "Last."}], keep_system=False)
    assert turns == [{"role": "user", "content": "Be short.\n\nWhy?\n\nLast."}]


def test_the_template_of_chat_small_asks_before_it_shows_the_passages() -> None:
    """Also where a passage has such a line itself; a question without passages stays as it is."""
    passages = [Passage("Forms", "First line."), Passage("More", "A\n\nQuestion: of the form.")]
    turn = {"role": "user", "content": numbered(passages) + "\n\nQuestion: Why?"}
    text = render(tokenizer(CHAT_TEMPLATE), [turn])
    assert text == f"<|user|>Question: Why?\n\n{numbered(passages)}\n<|end|><|assistant|>"
    alone = [{"role": "user", "content": "Question: Why?"}]
    assert render(tokenizer(CHAT_TEMPLATE), alone) == "<|user|>Question: Why?<|end|><|assistant|>"
