"""From a conversation to the text that a model reads: its own chat template, and what to do where that falls short.

Knows roles and tokenizers' templates. Does not know LangChain, passages or engines. A conversation is a list of
dictionaries with `role` and `content`, as transformers has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2.exceptions import TemplateError

Conversation = list[dict[str, Any]]

#: For models without a template, which continue a transcript; `PLAIN_STOP` keeps them from writing both parts.
_PLAIN_NAMES = {"user": "User", "assistant": "Assistant", "tool": "Tool"}
PLAIN_STOP = ("\nUser:", "\nAssistant:")


def render(
    tokenizer: Any,
    conversation: Conversation,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
) -> str:
    """The prompt for the assistant's next turn.

    A template that refuses a system message, two turns of one role, or drops the system message without a word, gets
    them merged into the user's. `options` are the template's own (`enable_thinking` and the like).
    """
    if not getattr(tokenizer, "chat_template", None):
        return plain(conversation)
    more = dict(options or {})
    if tools:
        more["tools"] = list(tools)

    def applied(turns: Conversation) -> str:
        text: str = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **more)
        return text

    system = [str(turn["content"]).strip() for turn in conversation if turn["role"] == "system"]
    for turns in (conversation, merged(conversation, keep_system=True)):
        try:
            text = applied(turns)
        except TemplateError:  # what templates raise of their own: "System role not supported" and the like
            continue
        if all(content in text for content in system):
            return text
    try:
        return applied(merged(conversation, keep_system=False))
    except TemplateError as error:
        raise ValueError(f"the model's chat template refuses this conversation: {error}") from error


def prompt_ids(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a rendered prompt. Templates write their own special tokens; plain text gets the tokenizer's."""
    is_plain = not getattr(tokenizer, "chat_template", None)
    ids: list[int] = tokenizer.encode(text, add_special_tokens=is_plain)
    return ids


def plain(conversation: Conversation) -> str:
    """A transcript for models that were never taught turns."""
    blocks = []
    for turn in conversation:
        name = _PLAIN_NAMES.get(turn["role"])
        blocks.append(f"{name}: {turn['content']}" if name else str(turn["content"]))
    return "\n\n".join([*blocks, "Assistant:"])


def merged(conversation: Conversation, *, keep_system: bool) -> Conversation:
    """Neighbours of one role as one turn; without `keep_system`, system messages open the next turn of the user."""
    turns: Conversation = []
    pending: list[str] = []
    for turn in conversation:
        turn = dict(turn)
        if turn["role"] == "system" and not keep_system:
            pending.append(turn["content"])
            continue
        if pending and turn["role"] == "user":
            turn["content"] = "\n\n".join([*pending, turn["content"]])
            pending = []
        _append(turns, turn)
    if pending:
        _append(turns, {"role": "user", "content": "\n\n".join(pending)})
    return turns


def _append(turns: Conversation, turn: dict[str, Any]) -> None:
    """Behind the last turn, or into it where both are plain text of one role."""
    last = turns[-1] if turns else {}
    if set(last) == set(turn) == {"role", "content"} and last["role"] == turn["role"]:
        last["content"] += "\n\n" + turn["content"]
    else:
        turns.append(turn)
