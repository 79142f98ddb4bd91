"""Quotes and symbols: plain for the model, as they were for the reader.

Knows characters. Small models have hardly met curly quotes, emoji and control characters; they copy straight quotes
well, and correct best what they need not copy at all.
"""

from __future__ import annotations

import unicodedata

_DOUBLE = "“”„‟″"
_SINGLE = "‘’‚‛′"
_STRAIGHT = str.maketrans(_DOUBLE + _SINGLE, '"' * len(_DOUBLE) + "'" * len(_SINGLE))


def straight(text: str) -> str:
    """`text` with straight quotes, as long as before."""
    return text.translate(_STRAIGHT)


def plain(text: str) -> str:
    """`text` on one line, with straight quotes and without pictographs, invisible and control characters."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(c for c in straight(text) if not _is_picture(c))
    return " ".join(text.split())


def _is_picture(char: str) -> bool:
    if char.isascii():
        return char < " " and not char.isspace()
    if char.isalpha() or char.isspace():
        return False
    kind = unicodedata.category(char)
    # Signs below the arrows (degrees, copyright, numero) are part of what is said.
    return kind[0] == "C" or (kind in {"So", "Sk"} and char >= "\u2190") or "\ufe00" <= char <= "\ufe0f"


def styled(replacement: str, source: str, start: int) -> str:
    """`replacement`, to be written at `source[start:]`, with the kind of quotes that `source` uses itself."""
    double = '"' not in source and any(c in source for c in "“”")
    single = "'" not in source and any(c in source for c in "‘’")
    if not double and not single:
        return replacement
    written: list[str] = []
    before = source[start - 1] if start else " "
    for char in replacement:
        opens = before.isspace() or before in "([{“‘—–"
        if char == '"' and double:
            char = "“" if opens else "”"
        elif char == "'" and single:
            char = "‘" if opens else "’"
        written.append(char)
        before = char
    return "".join(written)
