"""Which words there are, and which changes of words are believed.

A small model invents words ("coloring" -> "colororing"), takes rare ones for slips of common ones ("stents" ->
"students") and makes a guess at what it cannot read ("adipocytes" -> "advocates"). Knows a list of English words, and
edits; does not know sentences or the model.
"""

from __future__ import annotations

import gzip
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from rapidfuzz.distance import DamerauLevenshtein

from apps.gec.edits import Edit
from apps.gec.edits.words import CONFUSED
from apps.gec.typography import straight

#: Made by `python -m apps.gec.training.words`; licence beside it.
ENGLISH = Path(__file__).with_name("english.txt.gz")
#: A word of the list with so many letters was meant: hardly another one is a slip away.
_LONG = 6
# This share of the words is known in all but the wildest spelling, and hardly in other languages.
_SHARE = 0.4
# Shorter ones are not looked at: the halves of "do n't", initials, abbreviations.
_WORD = re.compile(r"[^\W\d_]{3,}(?:'[^\W\d_]+)?")
# In lower case, and no part of an address, a path, a compound or a program.
_PLAIN = re.compile(r"(?<![\w'@/.\\`-])[^\W\d_A-Z]{3,40}(?:'[a-z]+)?(?![\w@/\\`(-]|\.\w)")
# So many letters may be wrong in a word of `_LONG` letters, and one in a shorter one.
_SLIPS = 2
# No list has all the words that a longer word makes with these, and two of `_ROOT` letters and more together.
_PREFIX = re.compile(
    "anti|auto|bi|counter|co|de|hyper|inter|intra|iso|macro|mega|meta|micro|mid|mis|mono|multi|neuro|non|out|over|photo|"
    "poly|post|pre|pro|pseudo|re|semi|sub|super|tele|tera|trans|tri|ultra|under|un|up"
)
_SUFFIX = re.compile("(?:er|ers|ism|ist|ists|less|like|ness|wise)$")
_ROOT = 4
_JOINTS = re.compile(r"[\s-]+")


class Vocabulary:
    """Words in lower case and without accents; their forms with an apostrophe and with accents are words too."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(words)

    def __contains__(self, word: str) -> bool:
        word = bare(word)
        return word in self._words or word.partition("'")[0] in self._words

    def knows(self, text: str) -> bool:
        """Whether `text` may be in this language: of three words one is, of five two."""
        words = words_of(text)
        return len(words) < 3 or sum(word in self for word in words) >= round(_SHARE * len(words))

    def strange(self, text: str) -> list[tuple[int, int]]:
        """Where words stand in `text` that are not in the list nor made of its words, and hardly names or code."""
        found = _PLAIN.finditer(straight(text))
        return [m.span() for m in found if m.group() not in self and not self._is_made(m.group())]

    def doubts(self, seen: str, output: str) -> bool:
        """Whether `output` may hold a change that is not believed: quick, and right where it says no."""
        return _in_order(seen) != _in_order(output) or bool(self.strange(seen))

    def believes(self, edit: Edit, seen: str, output: str) -> bool:
        """Whether an edit on the way from `seen` to `output` makes no word that neither is in the list nor stood
        there, and replaces, adds or takes away no word that is better left."""
        old, new = words_of(edit.original), words_of(edit.replacement)
        if any(word not in self for word in new - words_of(seen)):
            return False
        operation, _, kind = edit.type.partition(":")
        if operation == "R":
            return self._mends(old - new, edit.replacement, kind)
        # A little word may be missing or too many, and any may move or stand there twice; what a sentence tells stays.
        return kind != "OTHER" or all(
            _has_kin(word, output if operation == "U" else seen) for word in new or _long(old)
        )

    def _mends(self, lost: set[str], replacement: str, kind: str) -> bool:
        """Whether `replacement` mends the words `lost`: no spelling and no ending of a word that is right, and no
        word of another by one that is not much like it, if it is strange or no question of grammar.
        Confused words ("desert", "dessert") are no matter of spelling, nor are forms ("teached", "taught")."""
        if any({*lost, straight(replacement).casefold()} <= group for group in CONFUSED):
            return True
        # "drafter" is no more of "draft": an agent's noun is no comparative.
        is_shorn = kind == "ADJ:FORM" and any(word.startswith(replacement.casefold()) for word in lost)
        if kind in ("SPELL", "MORPH") or is_shorn:
            return not any(map(self._is_sure, lost)) and all(_is_slip(word, replacement) for word in lost)
        is_free = kind.endswith(":INFL")
        return is_free or all(_is_slip(w, replacement) for w in lost if kind == "OTHER" or w not in self)

    def evades(self, edit: Edit, seen: str) -> bool:
        """Whether an edit puts something beside a strange word instead of mending it."""
        at = edit.start
        return not edit.original.strip() and any(a - 1 <= at <= b + 1 for a, b in self.strange(seen))

    def _is_sure(self, word: str) -> bool:
        return len(word) >= _LONG and word in self

    def _is_made(self, word: str) -> bool:
        """Whether `word` is one of the list with a common beginning or end, or two of them."""
        halves = [
            (word[:at], word[at:]) for at in range(_ROOT, len(word) - _ROOT + 1) if len(word) > 2 * _ROOT
        ]
        lead, tail = _PREFIX.match(word), _SUFFIX.search(word)
        roots = [word[lead.end() :]] if lead else []
        roots += [word[: tail.start()]] if tail else []
        return any(len(root) > _ROOT and root in self for root in roots) or any(
            first in self and second in self for first, second in halves
        )


def _is_slip(word: str, replacement: str) -> bool:
    """Whether `word` is one of the words of `replacement`, or all of them together, with a slip or two."""
    replacement = straight(replacement).casefold()
    if word.endswith("nt") and replacement.endswith("n't"):
        return True  # "She dont know": the apostrophe and the form at once
    allowed = _SLIPS if len(word) >= _LONG else 1
    return any(
        DamerauLevenshtein.distance(word, meant, score_cutoff=allowed) <= allowed
        for meant in (*replacement.split(), _JOINTS.sub("", replacement))
    )


def _long(words: Iterable[str]) -> list[str]:
    return [word for word in words if len(word) > _ROOT]


def _has_kin(word: str, text: str) -> bool:
    """Whether `text` holds a word that begins as `word` does."""
    return any(word[:_ROOT] == other[:_ROOT] for other in words_of(text))


def bare(word: str) -> str:
    """`word` without its accents."""
    if word.isascii():
        return word
    return "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))


def words_of(text: str) -> set[str]:
    """The words of three letters and more, in lower case."""
    return set(_in_order(text))


def _in_order(text: str) -> list[str]:
    found: list[str] = _WORD.findall(straight(text).casefold())
    return found


@cache
def english() -> Vocabulary:
    """The list that ships."""
    return Vocabulary(gzip.decompress(ENGLISH.read_bytes()).decode().split())
