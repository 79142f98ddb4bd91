"""Errors with articles and other determiners."""

from __future__ import annotations

from random import Random

from .inflections import BE, DETERMINERS, DO, HAVE, MODALS
from .lexicon import Lexicon
from .sentence import Sentence
from .tables import word_set

_ARTICLES = frozenset(("a", "an", "the"))
_SWAPS = {
    "this": ["these", "that", "the"], "these": ["this", "this", "those", "the"], "that": ["those", "this"],
    "those": ["that", "this", "these", "the"], "many": ["much", "a lot", "many of"],
    "much": ["many", "a lot"],
    "few": ["little", "a few"], "little": ["few", "a little"], "some": ["any", "a"], "any": ["some", "a"],
    "every": ["all", "each", "every of"], "all": ["every", "all of"], "each": ["every", "all"],
    "another": ["other", "an other", "others"], "other": ["another", "others"],
    "others": ["other", "another"],
    "fewer": ["less"], "less": ["fewer", "lesser"], "both": ["all"], "no": ["not", "none"],
    "most": ["most of", "the most", "almost"],
    "its": ["their", "it"], "their": ["its", "his", "they"], "his": ["her", "him", "their"],
    "my": ["me", "mine"],
    "your": ["you", "yours"], "our": ["us", "are", "ours"], "her": ["his", "she"], "such": ["such a", "so"],
}  # fmt: skip
_NO_ARTICLE_AFTER = (
    DETERMINERS | BE | DO | HAVE | MODALS | {"i", "you", "he", "she", "it", "we", "they", "to", "not"}
)
_TAKES_ARTICLE = word_set(
    "of in on at for with by from to is was are were as about into have has had make makes take get give "
    "gives "
    "use using need needs and be see learn understand when if that through between because like"
)


def article(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """An article missing, too many, or the wrong one."""
    here = [i for i in range(len(s)) if s.free[i] and s.lower(i) in _ARTICLES and s.is_word(i + 1)]
    kind = rng.random()
    if kind < 0.52 and here:
        weights = [1.5 if s.lower(i) == "the" else 2.0 for i in here]
        return s.put(rng.choices(here, weights)[0], "")
    if kind < 0.70 and here:
        i = rng.choice(here)
        return s.put(i, _other_article(s.lower(i), s.lower(i + 1), rng))
    return _extra_article(s, rng, lexicon)


def _other_article(now: str, following: str, rng: Random) -> str:
    vowel = following[:1] in "aeiou"
    right, wrong = ("an", "a") if vowel else ("a", "an")
    if now == "the":
        return right if rng.random() < 0.85 else wrong
    if rng.random() < 0.5:
        return "the"
    return wrong if now == right else right


def _extra_article(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    places = []
    for i in range(1, len(s)):
        if not s.is_word(i) or not s.is_word(i - 1) or s.lower(i) in _NO_ARTICLE_AFTER or s.gaps[i] != " ":
            continue
        if s.lower(i - 1) in _TAKES_ARTICLE and (
            s.lower(i) in lexicon.plural or s.lower(i) in lexicon.singular
        ):
            places.append(i)
    if not places:
        return False
    i = rng.choice(places)
    new = "the" if rng.random() < 0.72 else ("an" if s.lower(i)[:1] in "aeiou" else "a")
    return s.put_raw(i, f"{new} {s.words[i]}")


def determiner(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """This for these, much for many, its for their."""
    places = [i for i in range(len(s)) if s.is_word(i) and s.lower(i) in _SWAPS]
    if not places:
        return False
    i = rng.choice(places)
    return s.put(i, rng.choice(_SWAPS[s.lower(i)]))
