"""Text that a person gave. Knows what Python makes of bytes that are not UTF-8."""

from __future__ import annotations


def need_characters(text: str, name: str) -> None:
    """Raise ValueError where `text` holds a lone surrogate, in which Python hides a byte that is not UTF-8.

    No tokenizer reads one.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        place = f"{text[error.start]!r} at character {error.start}"
        raise ValueError(f"{name} is not UTF-8: {place}; write it again in UTF-8") from None
