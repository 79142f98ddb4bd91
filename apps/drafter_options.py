"""Options of drafters on the command line: `--drafter-option model=FOLDER`, in every command that has a drafter.

Knows how they are written. Does not know which drafter takes which; no model library is imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

DrafterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--drafter-option",
        metavar="NAME=VALUE",
        help="For drafters that need more, e.g. model=FOLDER for draft_model; PART.NAME=VALUE for one of several "
        "that are joined by +. Repeatable.",
    ),
]


def read_options(items: Iterable[str]) -> dict[str, Any]:
    """`NAME=VALUE` items as keyword options of a drafter; those of a part, `PART.NAME=VALUE`, under its name.

    Raises ValueError, with the item and the remedy, for what has another form.
    """
    options: dict[str, Any] = {}
    for item in items:
        left, equals, value = item.partition("=")
        part, dot, name = left.partition(".")
        if not (equals and part and bool(dot) == bool(name)):
            raise ValueError(
                f"the drafter option {item!r} must read NAME=VALUE, such as model=FOLDER, "
                "or PART.NAME=VALUE for one part of several"
            )
        into = options.setdefault(part, {}) if dot else options
        if not isinstance(into, dict) or (name or part) in into:
            raise ValueError(f"the drafter option {item!r} was given twice; give each once")
        into[name or part] = _value(value)
    return options


def _value(text: str) -> Any:
    """A number or a truth value where the text is one."""
    named = {"true": True, "false": False, "none": None}
    if text.lower() in named:
        return named[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
