"""Texts that a corrector refuses must not take the rest of their batch along.

Knows texts and ValueError. Does not know correctors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A text that was not corrected, and why."""

    reason: str


def correct_or_refuse(
    texts: list[str], correct: Callable[[list[str]], Sequence[Result]]
) -> list[Result | Refusal]:
    """A result for each text; a refusal for those at which `correct` alone raises ValueError."""
    try:
        results = correct(texts)
    except ValueError as error:
        if len(texts) == 1:
            return [Refusal(str(error))]
        return [outcome for text in texts for outcome in correct_or_refuse([text], correct)]
    if len(results) != len(texts):
        raise RuntimeError(f"the corrector returned {len(results)} results for {len(texts)} texts")
    return list(results)
