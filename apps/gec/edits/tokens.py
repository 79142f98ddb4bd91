"""Words and punctuation marks of a text, with their character spans.

Knows how a text falls into tokens for edits, diffs and M2. Does not know the model's subwords.
A hyphenated compound, a contraction ("don't"), a number ("1,000.50") and an address are one token each;
a run of one mark ("...") is one token; whitespace is never part of a token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?:https?://|www\.)[^\s<>"”]*[^\s<>"”.,;:!?)\]']   # web address, without the sentence's punctuation
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+                       # mail address
    | \d+(?:[.,:]\d+)+(?!\w)                             # 1,000.50  12:30
    | (?:[^\W_][\u0300-\u036f]*)+(?:[-'’](?:[^\W_][\u0300-\u036f]*)+)*
    | ([^\w\s]|_)\1*                                     # one mark, or a run of the same
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """`text` stands at `[start, end)` of the string that it was cut from."""

    text: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """Tokens of `text` in order; what lies between two of them is whitespace."""
    return [Token(m.group(), m.start(), m.end()) for m in _TOKEN.finditer(text)]
