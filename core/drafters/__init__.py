"""Drafters by name. To add one: a file in this folder and a line in `FACTORIES`."""

from __future__ import annotations

from collections.abc import Callable

from core.drafters.base import Drafter
from core.drafters.copy import Copy
from core.drafters.prompt_lookup import PromptLookup
from core.targets.base import Target

FACTORIES: dict[str, Callable[[Target], Drafter]] = {
    "none": lambda target: Drafter(),
    "copy": lambda target: Copy(is_aligned=target.is_encoder_decoder, eos_token_ids=target.eos_token_ids),
    "prompt_lookup": lambda target: PromptLookup(),
}


def names() -> list[str]:
    """Every drafter by name."""
    return sorted(FACTORIES)


def create(name: str, target: Target) -> Drafter:
    """The drafter of that name, with state of its own. Raises ValueError for an unknown name."""
    if name not in FACTORIES:
        raise ValueError(f"unknown drafter {name!r}; choose one of {', '.join(names())}")
    return FACTORIES[name](target)
