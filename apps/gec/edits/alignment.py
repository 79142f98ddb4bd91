"""Which tokens of a source became which tokens of its correction.

Knows strings, how much they resemble each other, and closed word classes. Merging by grammar is left to
`extraction`. What lies between the common beginning and end is aligned by a small dynamic programme that pairs words
which resemble each other, so that "go to to school" -> "went to school" is go/went and one "to" less. Where that
would be too large, Levenshtein opcodes (rapidfuzz) find the equal tokens first, and the programme fills the gaps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.distance import Indel, Levenshtein

from .words import AUXILIARIES, DETERMINERS, PREPOSITIONS, PRONOUNS, VERB_FORMS

# A region above this many cells stays one group: nobody reads a pairing of forty words with forty others.
MAX_CELLS = 1600
_SKIP = 1.0  # cost of an inserted or deleted token
_JOIN = 0.3  # cost of a split or joined word ("alot" / "a lot")
_GLUE = re.compile(r"[\s\-'’]+")

_CLOSED = {"DET": DETERMINERS, "PREP": PREPOSITIONS | {"to"}, "PRON": PRONOUNS, "AUX": AUXILIARIES}


@dataclass(frozen=True, slots=True)
class Group:
    """Source tokens `[i1, i2)` became target tokens `[j1, j2)`."""

    i1: int
    i2: int
    j1: int
    j2: int


def compact(tokens: Sequence[str]) -> str:
    """The letters alone: without case, hyphens, apostrophes and the spaces between the tokens."""
    return _GLUE.sub("", "".join(tokens)).casefold()


def is_word(token: str) -> bool:
    return any(c.isalnum() for c in token)


@lru_cache(maxsize=65536)
def _pair_cost(a: str, b: str) -> float:
    """Cost of turning token `a` into `b`; from 0 (equal) to just below two skips."""
    if a == b:
        return 0.0
    if is_word(a) != is_word(b):
        return 2.5
    if not is_word(a):
        return 1.0
    a, b = a.casefold(), b.casefold()
    kind = _kind(a)
    if kind is not None and kind == _kind(b):
        return 0.3 if kind.startswith("verb ") else 0.8
    cost = 0.05 + 1.85 * (1.0 - Indel.normalized_similarity(a, b)) ** 0.5
    # "to" seldom turns into "went", and more often into nothing.
    return cost + 0.5 * ((kind in _CLOSED) != (_kind(b) in _CLOSED))


def _kind(word: str) -> str | None:
    """What makes two words pairs that do not look alike: "go" and "went", "in" and "at", "a" and "the"."""
    if word in VERB_FORMS:
        return f"verb {VERB_FORMS[word][0]}"
    return next((name for name, members in _CLOSED.items() if word in members), None)


def align(source: Sequence[str], target: Sequence[str]) -> list[Group]:
    """The changed groups, in order; what lies between two of them is equal, token by token."""
    first, (last_a, last_b) = 0, (len(source), len(target))
    while first < min(last_a, last_b) and source[first] == target[first]:
        first += 1
    while min(last_a, last_b) > first and source[last_a - 1] == target[last_b - 1]:
        last_a, last_b = last_a - 1, last_b - 1
    if (last_a - first) * (last_b - first) <= MAX_CELLS:
        return _pair(source, target, Group(first, last_a, first, last_b))
    return _align_long(source, target)


def _align_long(source: Sequence[str], target: Sequence[str]) -> list[Group]:
    """Anchors by opcodes, then the regions between them one by one."""
    groups: list[Group] = []
    region: Group | None = None
    for op in Levenshtein.opcodes(source, target):
        if op.tag == "equal":
            if region is not None:
                groups.extend(_pair(source, target, region))
            region = None
        elif region is None:
            region = Group(op.src_start, op.src_end, op.dest_start, op.dest_end)
        else:
            region = Group(region.i1, op.src_end, region.j1, op.dest_end)
    if region is not None:
        groups.extend(_pair(source, target, region))
    return groups


def _pair(source: Sequence[str], target: Sequence[str], region: Group) -> list[Group]:
    """Split one unequal region into the cheapest sequence of pairs, splits, joins and skips."""
    a, b = source[region.i1 : region.i2], target[region.j1 : region.j2]
    if not a and not b:
        return []
    if not a or not b or len(a) * len(b) > MAX_CELLS:
        return [region]
    runs_a, runs_b = _runs(a), _runs(b)
    # best[i][j] = (cost of a[:i] -> b[:j], how many tokens of each side the last step took)
    best = [[(float("inf"), 0, 0)] * (len(b) + 1) for _ in range(len(a) + 1)]
    best[0][0] = (0.0, 0, 0)
    for i in range(len(a) + 1):
        for j in range(len(b) + 1):
            for di, dj, cost in (*_moves(a, b, i, j), *_joins(runs_a, runs_b, i, j)):
                total = best[i - di][j - dj][0] + cost
                if total < best[i][j][0]:
                    best[i][j] = (total, di, dj)
    groups: list[Group] = []
    i, j = len(a), len(b)
    while i or j:
        _, di, dj = best[i][j]
        if a[i - di : i] != b[j - dj : j]:
            at, to = region.i1 + i, region.j1 + j
            groups.append(Group(at - di, at, to - dj, to))
        i, j = i - di, j - dj
    return groups[::-1]


def _moves(a: Sequence[str], b: Sequence[str], i: int, j: int) -> list[tuple[int, int, float]]:
    """Steps that may end in cell (i, j): tokens taken from each side, and the cost."""
    moves: list[tuple[int, int, float]] = []
    if i and j:
        moves.append((1, 1, _pair_cost(a[i - 1], b[j - 1])))
    if i:
        moves.append((1, 0, _SKIP))
    if j:
        moves.append((0, 1, _SKIP))
    return moves


def _runs(tokens: Sequence[str]) -> list[list[str]]:
    """The letters alone of one, two and three tokens before each place, fewer at the beginning: `[3, 1 + tokens]`."""
    letters = [compact([token]) for token in tokens]
    return [["".join(letters[max(0, k - n) : k]) for k in range(len(tokens) + 1)] for n in (1, 2, 3)]


def _joins(
    runs_a: list[list[str]], runs_b: list[list[str]], i: int, j: int
) -> Iterator[tuple[int, int, float]]:
    """As `_moves`, for one token that equals two or three by its letters."""
    for di, dj in ((1, 2), (2, 1), (1, 3), (3, 1)):
        left = runs_a[di - 1][i]
        if left and left == runs_b[dj - 1][j] and i >= di and j >= dj:
            yield di, dj, _JOIN
