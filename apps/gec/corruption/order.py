"""Words in the wrong order: adverbs, questions, indirect questions, neighbours swapped."""

from __future__ import annotations

from random import Random

from .inflections import BE, DO, HAVE, MODALS
from .lexicon import Lexicon
from .sentence import Sentence
from .tables import word_set

_ADVERBS = word_set(
    "always never often usually sometimes also really still just only already even ever not very too so "
    "almost "
    "probably certainly easily quickly clearly currently now then here there well much more"
)
_TURNED = BE | DO | HAVE | MODALS
_ASKING = word_set("what why how where when who which")
_PRONOUNS = word_set("i you he she it we they this that there people")


def turned(verb: str, subject: str) -> bool:
    """Whether two words are an auxiliary and a subject."""
    return verb in _TURNED and subject in _PRONOUNS


def word_order(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """Two neighbours in the wrong order; where nothing typical is found, sometimes any two words."""
    swaps: list[int] = []
    pairs = [i for i in range(len(s) - 1) if _is_plain(s, i) and _is_plain(s, i + 1)]
    for i in pairs:
        low, after = s.lower(i), s.lower(i + 1)
        if low in _ADVERBS or after in _ADVERBS or low.endswith("ly") or after.endswith("ly"):
            swaps += [i] * 3
        elif turned(low, after) or (turned(after, low) and s.lower(i - 1) in _ASKING):
            swaps += [i] * 4
    if not swaps:
        if not pairs or rng.random() < 0.7:
            return False
        swaps = pairs
    return _swap(s, rng.choice(swaps))


def _is_plain(s: Sentence, i: int) -> bool:
    return s.is_word(i) and not s.is_name(i)


def _swap(s: Sentence, i: int) -> bool:
    first, second = s.words[i], s.words[i + 1]
    if first.lower() == second.lower():
        return False
    if first[:1].isupper() and first != "I":
        first = first[0].lower() + first[1:]
        second = second[0].upper() + second[1:]
    s.words[i], s.words[i + 1] = second, first
    s.free[i] = s.free[i + 1] = False
    s.edits += 1
    return True


def adverb_moves(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """An adverb moved two or three places on (I go always to school)."""
    places = [
        i
        for i in range(1, len(s) - 3)
        if s.is_word(i) and (s.lower(i) in _ADVERBS or s.lower(i).endswith("ly")) and len(s.words[i]) > 3
    ]
    if not places:
        return False
    i = rng.choice(places)
    j = i + rng.choice((2, 2, 3))
    if j >= len(s) or not all(s.is_word(k) for k in range(i, j + 1)):
        return False
    word = s.words[i]
    s.put_raw(j, f"{s.words[j]} {word}")
    return s.put_raw(i, "")
