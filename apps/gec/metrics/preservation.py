"""What a corrector must not do: touch numbers and names, lose the end of a sentence, or run in circles.

Knows the source and the output as text; nothing about models. Each check is a heuristic and says what it
counts, so that a figure of zero means something.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

_URL = r"(?:https?://|www\.)[^\s<>\"')\]]+"
_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "numbers": re.compile(r"\d+(?:[.,:/]\d+)*"),
    "urls": re.compile(_URL),
    "emails": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "code": re.compile(r"`[^`\n]+`"),
    # A capital after a lower-case word or a comma is a name, not the start of a sentence. "I" is not one.
    "names": re.compile(r"(?<=[a-z,] )(?!I\b)[A-Z][\w-]*(?: [A-Z][\w-]*)*"),
}
KINDS = tuple(_PATTERNS)

_LOST_TAIL_TOKENS = 4
_LOST_TAIL_SHARE = 0.85
_MAX_LOOP_WORDS = 8
_LOOP_REPEATS = 3


def protected_spans(text: str, kind: str) -> Counter[str]:
    """Return the spans of one kind in text, with how often each occurs."""
    return Counter(match.group() for match in _PATTERNS[kind].finditer(text))


def kept(source: str, output: str, kind: str) -> bool | None:
    """Whether every protected span of the source is in the output as often; None when it has none.

    Names are looked for anywhere in the output, since an edit before one changes what precedes it.
    """
    spans = protected_spans(source, kind)
    if not spans:
        return None
    if kind == "names":
        return all(output.count(span) >= times for span, times in spans.items())
    return not spans - protected_spans(output, kind)


def lost_tail(source: str, output: str) -> bool:
    """Whether the output stops early: clearly shorter, and the source's last words are nowhere in it."""
    before, after = source.split(), output.split()
    if len(before) - len(after) < _LOST_TAIL_TOKENS or len(after) >= _LOST_TAIL_SHARE * len(before):
        return False
    tail = [word for word in before[-_LOST_TAIL_TOKENS:] if word[0].isalnum()]
    return sum(word in after[-2 * _LOST_TAIL_TOKENS :] for word in tail) * 2 < max(len(tail), 1)


def _longest_repeat(words: list[str], length: int) -> int:
    """How often some run of `length` words follows itself at most (1: never); rows of dots are no loop."""
    best = run = 0
    for i in range(length, len(words)):
        again = words[i] == words[i - length] and any(map(str.isalnum, words[i]))
        run = run + 1 if again else 0
        best = max(best, run)
    return best // length + 1


def has_loop(source: str, output: str) -> bool:
    """Whether the output repeats a run of words three times or more where the source does not."""
    before, after = source.split(), output.split()
    return any(
        _longest_repeat(after, length) >= _LOOP_REPEATS > _longest_repeat(before, length)
        for length in range(1, _MAX_LOOP_WORDS + 1)
    )
