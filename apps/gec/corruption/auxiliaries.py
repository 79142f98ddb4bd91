"""Small words missing, doubled or too many: auxiliaries, `to`, conjunctions, whatever slips out."""

from __future__ import annotations

from random import Random

from .inflections import BE, DO, HAVE, MODALS, SUBJECTS
from .lexicon import BASE, ING, PAST, THIRD, Lexicon
from .sentence import Sentence
from .tables import word_set

_AUXILIARIES = BE | DO | HAVE | MODALS
_FUNCTION = word_set(
    "and or but that which who when if because so then also not it there as than the a an to of in on for "
    "with is are "
    "was were be have has had do does did will would can could should more very just only "
    "still been being"
)


def missing_auxiliary(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A form of be, have, do or a modal left out (he going, people been)."""
    places = [
        i for i in range(1, len(s) - 1) if s.is_word(i) and s.lower(i) in _AUXILIARIES and s.is_word(i + 1)
    ]
    if not places:
        return False
    return s.put(rng.choice(places), "")


def extra_auxiliary(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """An auxiliary where none belongs (I am agree, it is depends, can to go, must be go)."""
    places: list[tuple[int, str]] = []
    for i in range(1, len(s)):
        if not s.is_word(i):
            continue
        before = s.lower(i - 1)
        readings = lexicon.verbs.get(s.lower(i))
        slot = readings[0][1] if readings else None
        if slot in (BASE, THIRD, PAST) and before in SUBJECTS:
            be = "am" if before == "i" else "is" if before in ("he", "she", "it", "this", "that") else "are"
            places += [(i, be), (i, be), (i, "do"), (i, "have"), (i, "will"), (i, "can")]
        elif slot == BASE and before in MODALS:
            places += [(i, "to"), (i, "be"), (i, "to")]
        elif slot in (PAST, ING) and before in BE:
            places.append((i, "being" if slot == PAST else "been"))
    if not places:
        return False
    i, new = rng.choice(places)
    return s.put_raw(i, f"{new} {s.words[i]}")


def missing_word(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A small word left out."""
    places = [i for i in range(1, len(s) - 1) if s.is_word(i) and s.lower(i) in _FUNCTION and s.gaps[i]]
    if not places:
        return False
    return s.put(rng.choice(places), "")


def doubled_word(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A word written twice, or two that belong together (the the, is are)."""
    places = [i for i in range(len(s)) if s.is_word(i) and not s.is_name(i)]
    if not places:
        return False
    weights = [4.0 if s.lower(i) in _FUNCTION else 1.0 for i in places]
    i = rng.choices(places, weights)[0]
    word = s.words[i]
    twin = word if word == "I" or not word[0].isupper() else word.lower()
    return s.put_raw(i, f"{word} {twin}")


_PADDING = (
    "very",
    "more",
    "also",
    "just",
    "so",
    "the",
    "of",
    "it",
    "is",
    "that",
    "to",
    "and",
    "then",
    "there",
    "be",
)


def extra_word(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A small word too many."""
    places = [i for i in range(1, len(s)) if s.is_word(i) and s.is_word(i - 1) and s.gaps[i] == " "]
    if not places:
        return False
    i = rng.choice(places)
    subject = {"because": "it", "which": "it", "who": "he", "people": "they", "although": "but", "so": "that"}
    extra = subject.get(s.lower(i - 1)) if rng.random() < 0.5 else None
    extra = extra or rng.choice(_PADDING)
    if extra in (s.lower(i), s.lower(i - 1)) or (
        extra in ("very", "more", "also", "just", "so") and rng.random() < 0.8
    ):
        return False
    return s.put_raw(i, f"{extra} {s.words[i]}")
