"""LangChain's messages as a conversation for chat templates, and completions as LangChain's messages.

Knows message classes and token counts. Does not know engines or templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata

from .templates import Conversation

if TYPE_CHECKING:
    from core import Completion


def conversation(messages: Sequence[BaseMessage]) -> Conversation:
    """Roles and texts. Raises ValueError for what a text model cannot read (images, sound) or does not know."""
    if not messages:
        raise ValueError("there are no messages; give at least one")
    return [_turn(message) for message in messages]


def _turn(message: BaseMessage) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": _role(message), "content": _text(message)}
    if isinstance(message, AIMessage) and message.tool_calls:
        turn["tool_calls"] = [
            {
                "type": "function",
                "id": call["id"],
                "function": {"name": call["name"], "arguments": call["args"]},
            }
            for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        turn["tool_call_id"] = message.tool_call_id
        if message.name:
            turn["name"] = message.name
    return turn


def _role(message: BaseMessage) -> str:
    match message:
        case SystemMessage():
            return "system"
        case HumanMessage():
            return "user"
        case AIMessage():
            return "assistant"
        case ToolMessage():
            return "tool"
        case ChatMessage():
            return message.role
    raise ValueError(
        f"a message of type {message.type!r} has no place in a chat; use system, human, ai or tool"
    )


def _text(message: BaseMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    for block in message.content:
        kind = "text" if isinstance(block, str) else block.get("type")
        # Tool calls stand in the message's own field.
        if kind not in ("text", "tool_use", "tool_call", "reasoning", "thinking"):
            raise ValueError(f"the model reads text only; leave the {kind!r} block out")
    return str(message.text)


def usage(num_prompt: int, completion: Completion) -> UsageMetadata:
    """Token counts of one answer."""
    written = len(completion.token_ids)
    return UsageMetadata(input_tokens=num_prompt, output_tokens=written, total_tokens=num_prompt + written)


def metadata(model: str, completion: Completion) -> dict[str, Any]:
    """What a message tells of its making: model, why it ended, and how the drafts fared."""
    stats = completion.stats
    return {
        "model_name": model,
        "finish_reason": completion.finish_reason,
        "target_calls": stats.target_calls,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
        "tokens_per_call": stats.tokens_per_call,
    }
