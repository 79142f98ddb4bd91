"""Curly quotes and primes: straight for the model, in their own style for the reader.

Knows quotation marks. Small models have hardly met curly ones, and read and copy straight ones well. One character
stays one character, so offsets do not move.
"""

from __future__ import annotations

_DOUBLE = "“”„‟″"
_SINGLE = "‘’‚‛′"
_STRAIGHT = str.maketrans(_DOUBLE + _SINGLE, '"' * len(_DOUBLE) + "'" * len(_SINGLE))


def straight(text: str) -> str:
    """`text` with straight quotes, as long as before."""
    return text.translate(_STRAIGHT)


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
