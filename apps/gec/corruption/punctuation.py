"""Errors of punctuation, spacing and capitals, including run-on sentences and broken ones."""

from __future__ import annotations

from random import Random

from .lexicon import Lexicon
from .sentence import Sentence
from .tables import word_set

_DAYS = word_set(
    "monday tuesday wednesday thursday friday saturday sunday january february march april june july "
    "august september "
    "october november december english french german spanish chinese american america "
    "europe internet japan"
)
# A comma so early ends an introduction, and is the one that writers forget most.
_OPENING = 7
_LINKS = word_set("because but and so which although when if while or that")


def comma(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A comma missing, or one too many."""
    if rng.random() < 0.72:
        places = [i for i in range(1, len(s) - 1) if s.words[i] == "," and s.free[i]]
        if places:
            is_opening = places[0] <= _OPENING and rng.random() < 0.5
            return s.put_raw(places[0] if is_opening else rng.choice(places), "")
    links = [i for i in range(2, len(s) - 1) if s.is_word(i) and s.lower(i) in _LINKS and s.is_word(i - 1)]
    if links and rng.random() < 0.6:
        i = rng.choice(links)
        return s.put_raw(i - 1, s.words[i - 1] + ",")
    if links and rng.random() < 0.3:
        i = rng.choice(links)
        return s.put_raw(i, s.words[i] + ",")
    places = [i for i in range(1, len(s) - 2) if s.is_word(i) and s.is_word(i + 1)]
    if not places or rng.random() < 0.7:
        return False
    i = rng.choice(places)
    return s.put_raw(i, s.words[i] + ",")


def run_on(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """Two sentences run together, with a comma or with nothing."""
    places = [
        i
        for i in range(2, len(s) - 2)
        if s.words[i] in (".", ";") and s.free[i] and s.gaps[i + 1] and s.is_word(i + 1)
    ]
    if not places:
        return False
    i = rng.choice(places)
    following = s.words[i + 1]
    lower = following[0].lower() + following[1:]
    known = following != "I" and (lower in lexicon.words or lower in lexicon.verbs)
    if known and rng.random() < 0.75:
        s.put_raw(i + 1, lower)
    return s.put_raw(i, "," if rng.random() < 0.6 else "")


def broken_sentence(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A clause cut off as a sentence of its own (. Because ...)."""
    places = [
        i
        for i in range(4, len(s) - 3)
        if s.is_word(i) and s.lower(i) in ("because", "and", "but", "so", "which", "when", "although")
    ]
    if not places:
        return False
    i = rng.choice(places)
    word = s.words[i]
    if s.words[i - 1] == "," and s.free[i - 1]:
        s.put_raw(i - 1, ".")
    elif s.is_word(i - 1):
        s.put_raw(i - 1, s.words[i - 1] + ".")
    else:
        return False
    return s.put_raw(i, word[0].upper() + word[1:])


def final_mark(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """The mark at the end missing or the wrong one."""
    last = len(s) - 1
    if last < 2 or s.words[last] not in ".?!" or not s.free[last]:
        return False
    kind = rng.random()
    if kind < 0.6:
        return s.put_raw(last, "")
    if s.words[last] == "?":
        return s.put_raw(last, ".")
    if kind < 0.75:
        return s.put_raw(last, ",")
    if kind < 0.9:
        return s.put_raw(last, s.words[last] + rng.choice(("!", ".")))
    return s.words[last] == "." and s.put_raw(last, "?") if rng.random() < 0.3 else False


def spacing(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A space before a mark, or none after it."""
    marks = [i for i in range(1, len(s) - 1) if s.words[i] in ".,;:!?" and s.free[i] and s.gaps[i + 1] == " "]
    if not marks:
        return False
    i = rng.choice(marks)
    if rng.random() < 0.55:
        s.gaps[i] = " "
        if rng.random() < 0.4:
            s.gaps[i + 1] = ""
    else:
        s.gaps[i + 1] = ""
    s.free[i] = False
    s.edits += 1
    return True


def capital(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A capital missing (i, monday, the first word) or too many."""
    places: list[tuple[int, str]] = []
    for i in range(len(s)):
        if not s.is_word(i):
            continue
        word = s.words[i]
        if word == "I" or word.startswith(("I'", "I’")):
            places += [(i, "i" + word[1:])] * 4
        elif word[0].isupper() and (s.starts(i) or word.lower() in _DAYS):
            places += [(i, word[0].lower() + word[1:])] * 4
        elif word[0].islower() and len(word) > 3 and word in lexicon.plural and rng.random() < 0.12:
            places.append((i, word.capitalize()))
    if not places:
        return False
    i, new = rng.choice(places)
    return s.put_raw(i, new)


def hyphen(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A hyphen lost."""
    places = [
        i
        for i in range(1, len(s) - 1)
        if s.words[i] == "-" and s.free[i] and not s.gaps[i] and not s.gaps[i + 1] and s.is_word(i + 1)
    ]
    if not places:
        return False
    i = rng.choice(places)
    if rng.random() < 0.75:
        s.gaps[i + 1] = " "
    return s.put_raw(i, "")


def all_lower(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """Every ordinary first word and every `I` in lower case, as in chats."""
    changed = False
    for i in range(len(s)):
        if s.is_word(i) and (s.words[i] == "I" or (s.starts(i) and s.words[i][0].isupper())):
            changed |= s.put_raw(i, s.words[i][0].lower() + s.words[i][1:])
    return changed
