"""Tool calls as text: whether a template takes tools, how a call is begun, how calls are read out of an answer.

Knows the two ways in which most open models write calls: `<tool_call>` with JSON inside (Hermes, Qwen and others),
and an answer that is one JSON object (Llama 3). Does not know LangChain's messages or engines.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPENING, CLOSING = "<tool_call>", "</tool_call>"
_TOOLS = re.compile(r"\btools\b")
_CALL = re.compile(rf"{OPENING}\s*(.*?)\s*(?:{CLOSING}|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Call:
    """One call; `arguments` None where the model wrote no valid JSON, which is then in `text`."""

    name: str
    arguments: dict[str, Any] | None
    text: str


def takes_tools(template: object) -> bool:
    """Whether a chat template (or named templates) has a place for tools."""
    texts = template.values() if isinstance(template, dict) else [template]
    return any(isinstance(text, str) and _TOOLS.search(text) for text in texts)


def template_of(model: str) -> object:
    """The chat template of a folder, or of a hub id that was downloaded before, without loading a tokenizer."""
    path = _file(model, "chat_template.jinja")
    if path is not None:
        return path.read_text(encoding="utf-8")
    path = _file(model, "tokenizer_config.json")
    if path is None:
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8")).get("chat_template")
    except (ValueError, AttributeError):  # loading will say what is wrong with the file
        return None
    return {one["name"]: one["template"] for one in found} if isinstance(found, list) else found


def _file(model: str, name: str) -> Path | None:
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder / name if (folder / name).is_file() else None
    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(model, name)
    return Path(found) if isinstance(found, str) else None


def forced_beginning(choice: str | None, template: object) -> str:
    """What an answer must begin with so that it calls a tool: any (`any`, `required`), or the one that is named.

    Raises ValueError for templates whose models write calls in another way.
    """
    if choice in (None, "auto", "none"):
        return ""
    if not any(
        OPENING in str(text) for text in (template.values() if isinstance(template, dict) else [template])
    ):
        raise ValueError(f"tool_choice={choice!r} cannot be forced on this model; leave it out")
    if choice in ("any", "required"):
        return f'{OPENING}\n{{"name": "'
    return f'{OPENING}\n{{"name": {json.dumps(choice)}, "arguments": '


def read_calls(answer: str) -> tuple[str, list[Call]]:
    """The answer without its calls, and the calls."""
    written = _CALL.findall(answer)
    if written:
        return _CALL.sub("", answer).strip(), [_call(text) for text in written]
    call = _call(answer.strip())
    return ("", [call]) if call.arguments is not None and call.name else (answer, [])


def _call(text: str) -> Call:
    try:
        fields = json.loads(text)
        arguments = fields.get("arguments", fields.get("parameters", {}))
        if isinstance(arguments, dict) and isinstance(fields["name"], str):
            return Call(fields["name"], arguments, text)
    except (ValueError, KeyError, AttributeError, TypeError):
        pass
    return Call("", None, text)
