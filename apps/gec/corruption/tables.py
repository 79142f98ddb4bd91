"""Tables of words are written as running text here; these turn them into what the code looks things up in."""

from __future__ import annotations


def word_list(text: str) -> list[str]:
    """The words of a text, in order."""
    return text.split()


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())
