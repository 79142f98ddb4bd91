"""Word lists that errors are drawn from: misspellings, learner misspellings, verb and noun tables.

Reads `<data>/noise`; without it a small built-in list keeps everything working (and the tests quick).
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

# base, past, participle, -ing, -s
Paradigm = tuple[str, str, str, str, str]
BASE, PAST, PARTICIPLE, ING, THIRD = range(5)

_FALLBACK_VERBS = (
    "go went gone going goes;take took taken taking takes;make made made making makes;"
    "think thought thought thinking thinks;want wanted wanted wanting wants;see saw seen seeing sees;"
    "write wrote written writing writes;need needed needed needing needs;use used used using uses;"
    "walk walked walked walking walks;live lived lived living lives;give gave given giving gives"
)
_FALLBACK_NOUNS = "car cars;child children;book books;problem problems;student students;house houses;day days"
_FALLBACK_SPELLING = {
    "because": ["becuase", "becouse"],
    "their": ["thier"],
    "receive": ["recieve"],
    "which": ["wich"],
    "believe": ["beleive"],
    "different": ["diffrent"],
    "environment": ["enviroment"],
}


@dataclass
class Lexicon:
    """Everything the error makers look words up in."""

    misspellings: dict[str, list[str]] = field(default_factory=dict)
    verbs: dict[str, list[tuple[Paradigm, int]]] = field(default_factory=dict)
    plural: dict[str, str] = field(default_factory=dict)
    singular: dict[str, str] = field(default_factory=dict)
    comparative: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    words: frozenset[str] = frozenset()
    wrong_words: frozenset[str] = frozenset()
    families: dict[str, list[str]] = field(default_factory=dict)


def builtin_lexicon() -> Lexicon:
    """A small lexicon that needs no files."""
    lexicon = Lexicon(misspellings={k: list(v) for k, v in _FALLBACK_SPELLING.items()})
    for row in _FALLBACK_VERBS.split(";"):
        base, past, participle, ing, third = row.split()
        _add_verb(lexicon, (base, past, participle, ing, third))
    for row in _FALLBACK_NOUNS.split(";"):
        one, many = row.split()
        lexicon.plural[one], lexicon.singular[many] = many, one
    lexicon.words = frozenset(lexicon.verbs) | frozenset(lexicon.plural) | frozenset(lexicon.singular)
    return lexicon


def load_lexicon(data: Path) -> Lexicon:
    """The full lexicon from `<data>/noise`."""
    noise = data / "noise"
    if not noise.is_dir():
        raise FileNotFoundError(f"no word lists at {noise}: give the folder that holds noise/ with --data")
    lexicon = Lexicon()
    lexicon.words = frozenset(
        line.strip() for line in (noise / "errant_en_GB-large.txt").read_text("utf-8").splitlines()
    )
    _load_inflections(lexicon, noise / "lemminflect_infl_lu.csv.gz")
    _load_misspellings(lexicon, noise)
    _build_families(lexicon)
    return lexicon


def _add_verb(lexicon: Lexicon, paradigm: Paradigm) -> None:
    for slot, form in enumerate(paradigm):
        lexicon.verbs.setdefault(form, []).append((paradigm, slot))


def _load_inflections(lexicon: Lexicon, path: Path) -> None:
    with gzip.open(path, "rt", encoding="utf-8") as rows:
        for row in rows:
            cells = [cell.split("/")[0] for cell in row.rstrip("\n").split(",")]
            lemma, kind, forms = cells[0], cells[1], cells[2:]
            if not lemma.isalpha() or not lemma.islower() or lemma not in lexicon.words:
                continue
            if kind == "verb" and len(forms) == 4 and lemma not in ("be", "do", "have"):
                past, participle, ing, third = forms
                _add_verb(lexicon, (lemma, past, participle or past, ing, third))
            elif kind == "noun" and forms and forms[0] != lemma and forms[0].isalpha():
                lexicon.plural.setdefault(lemma, forms[0])
                lexicon.singular.setdefault(forms[0], lemma)
            elif kind == "adj" and len(forms) == 2:
                for form in (lemma, *forms):
                    lexicon.comparative.setdefault(form, (lemma, forms[0], forms[1]))


def _load_misspellings(lexicon: Lexicon, noise: Path) -> None:
    table: dict[str, list[str]] = defaultdict(list)
    wrong_words: set[str] = set()
    with gzip.open(noise / "misspellings.jsonl.gz", "rt", encoding="utf-8") as rows:
        for row in rows:
            item = json.loads(row)
            if item["src"] in ("typos", "misspell") and item["right"] in lexicon.words:
                table[item["right"]].append(item["wrong"])
                if item["wrong"] not in lexicon.words:
                    wrong_words.add(item["wrong"])
    with (noise / "toefl_spell.jsonl").open(encoding="utf-8") as rows:
        for row in rows:
            item = json.loads(row)
            if " " in item["right"] or "?" in item["wrong"]:
                continue
            # What learners really wrote counts several times as much as what typists might write.
            table[item["right"].lower()].extend([item["wrong"].lower()] * 4)
    lexicon.misspellings = dict(table)
    lexicon.wrong_words = frozenset(wrong_words)


_SUFFIX_SWAPS = [
    ("ly", ""), ("ally", "al"), ("ily", "y"), ("ness", ""), ("ful", ""), ("ence", "ent"), ("ance", "ant"),
    ("ity", ""), ("ility", "le"), ("ous", ""), ("al", ""), ("ment", ""), ("tion", "te"), ("ation", "e"),
    ("ation", ""), ("ion", ""), ("sion", "de"), ("er", ""), ("ive", "ion"), ("able", ""), ("iness", "y"),
    ("th", ""), ("ing", ""), ("ed", ""), ("y", ""), ("ful", "e"), ("ic", "y"), ("ist", "y"), ("ical", "ic"),
]  # fmt: skip


def _build_families(lexicon: Lexicon) -> None:
    """Words of one root with different endings (important/importance), which learners mix up."""
    skip = {"ing", "ed"}
    for word in lexicon.words:
        if not (word.isalpha() and word.islower() and len(word) > 5):
            continue
        for suffix, other in _SUFFIX_SWAPS:
            if suffix in skip or not word.endswith(suffix):
                continue
            mate = word[: -len(suffix)] + other
            if len(mate) > 3 and mate in lexicon.words and mate.islower():
                lexicon.families.setdefault(word, []).append(mate)
                lexicon.families.setdefault(mate, []).append(word)
