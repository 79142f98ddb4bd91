"""Errors of form: verb forms and tense, agreement, noun number, comparatives, related words of one root."""

from __future__ import annotations

from random import Random

from .lexicon import BASE, ING, PARTICIPLE, PAST, THIRD, Lexicon, Paradigm
from .sentence import Sentence
from .tables import word_list, word_set

MODALS = word_set("can could will would shall should may might must can't cannot couldn't won't wouldn't")
BE = word_set("be am is are was were been being")
HAVE = word_set("have has had having haven't hasn't hadn't")
DO = word_set("do does did don't doesn't didn't")
SUBJECTS = word_set("i you we they he she it who which that there people everyone someone this these those")
DETERMINERS = word_set(
    "a an the this that these those my your his her its our their some any no every each another many much "
    "few "
    "several more most less which what whose all both one two three four five other such"
)
_PREPOSITIONS = word_set("of for in by without about from on at with after before instead than like")
_OBJECTS = word_set("the a an my your his her its our their it them me us him this that to")
_COMMON_VERBS = word_set(
    "think want need have make go take get know see come give find tell ask feel become leave put mean "
    "keep let begin seem help show hear run believe bring happen write provide sit stand lose pay meet "
    "include continue learn understand lead allow add spend grow open win offer remember love consider "
    "appear buy wait serve die send expect build stay fall cut reach remain suggest raise pass sell "
    "require decide live like work play use try call agree explain develop carry break receive thank join "
    "eat choose depend cause increase improve create enjoy prefer study travel speak read teach follow "
    "support protect reduce affect solve produce prepare drive "
    "say look turn move believe hold rely contain represent"
)

# The slot found -> what people write instead, with weights.
_SWAPS = {
    BASE: ((THIRD, 50), (ING, 20), (PAST, 22), (PARTICIPLE, 8)),
    THIRD: ((BASE, 76), (PAST, 12), (ING, 12)),
    PAST: ((BASE, 50), (THIRD, 14), (ING, 14), (PARTICIPLE, 22)),
    PARTICIPLE: ((BASE, 50), (PAST, 28), (ING, 22)),
    ING: ((BASE, 68), (PAST, 16), (THIRD, 8), (PARTICIPLE, 8)),
}
_BE_SWAPS = {
    "is": ["are", "are", "was", "be", "are", "were", "'s been", "has"],
    "are": ["is", "is", "was", "were", "be"],
    "was": ["were", "is", "were", "are", "been"], "were": ["was", "was", "are", "is"],
    "am": ["is", "are", "was"],
    "be": ["is", "been", "being", "are", "become"], "been": ["be", "being", "was"], "being": ["be", "been"],
    "has": ["have", "have", "had", "is"], "have": ["has", "has", "had", "having"],
    "had": ["have", "has", "have"],
    "do": ["does", "did", "are"], "does": ["do", "do", "did"], "did": ["do", "does", "was"],
    "don't": ["doesn't", "didn't", "not"], "doesn't": ["don't", "don't", "isn't", "not"],
    "didn't": ["don't", "doesn't", "wasn't"], "isn't": ["aren't", "wasn't", "not"],
    "aren't": ["isn't", "don't"],
    "wasn't": ["weren't", "didn't", "isn't"], "weren't": ["wasn't", "aren't"],
    "hasn't": ["haven't", "didn't"],
    "haven't": ["hasn't", "don't"], "will": ["would", "would", "can"], "would": ["will", "will", "should"],
    "can": ["could", "could", "may"], "could": ["can", "can", "would"], "should": ["must", "would", "shall"],
    "may": ["might", "can", "maybe"], "might": ["may", "maybe"],
}  # fmt: skip


def _reading(s: Sentence, i: int, lexicon: Lexicon) -> tuple[Paradigm, int] | None:
    """The verb that word i plausibly is here; None where it is more likely a noun or an adjective."""
    low = s.lower(i)
    readings = lexicon.verbs.get(low)
    if not readings or not s.is_word(i) or s.is_name(i) or low in BE:
        return None
    paradigm, slot = readings[0]
    before, after = s.lower(i - 1), s.lower(i + 1)
    if slot in (BASE, THIRD):
        free_standing = (
            before in SUBJECTS or before in MODALS or before in DO or before in ("to", "not", "n't")
        )
        led = before not in DETERMINERS and before not in _PREPOSITIONS
        if not (free_standing or (led and (after in _OBJECTS or paradigm[BASE] in _COMMON_VERBS))):
            return None
    elif slot != ING and before in DETERMINERS:
        return None
    for other in readings:
        if before in HAVE and other[1] == PARTICIPLE:
            return other
    return paradigm, slot


def _wrong_slot(before: str, slot: int, rng: Random) -> tuple[int, str]:
    """Which form is written instead, and what is put before it."""
    if before in MODALS or before in DO:
        pick = rng.random()
        return (BASE, "to ") if pick < 0.22 else ((PAST, ING, THIRD)[int((pick - 0.22) / 0.261)], "")
    if before == "to" and slot == BASE:
        return rng.choice(((ING, ""), (ING, ""), (PAST, ""), (THIRD, "")))
    if before in HAVE and slot == PARTICIPLE:
        return rng.choice(((BASE, ""), (BASE, ""), (PAST, ""), (ING, "")))
    if before in BE and slot in (PARTICIPLE, ING):
        return rng.choice(((BASE, ""), (BASE, ""), (ING if slot != ING else PAST, ""), (THIRD, "")))
    if before in _PREPOSITIONS and slot == ING:
        return rng.choice(((BASE, ""), (BASE, ""), (BASE, "to "), (PAST, "")))
    if slot == ING and rng.random() < 0.25:
        return BASE, "to "
    slots, weights = zip(*_SWAPS[slot], strict=True)
    return rng.choices(slots, weights)[0], ""


def verb_form(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """One full verb in a wrong form for its place."""
    places = [(i, r) for i in range(len(s)) if (r := _reading(s, i, lexicon)) is not None]
    if not places:
        return False
    i, (paradigm, slot) = rng.choice(places)
    wrong, lead = _wrong_slot(s.lower(i - 1), slot, rng)
    new = paradigm[wrong]
    regular = paradigm[BASE] + ("d" if paradigm[BASE].endswith("e") else "ed")
    if slot in (PAST, PARTICIPLE) and s.lower(i) != regular and rng.random() < 0.12:
        new, lead = regular, ""
    elif not lead and slot == PAST and rng.random() < 0.06:
        new, lead = paradigm[BASE], "did "
    elif not lead and slot in (BASE, THIRD) and s.lower(i - 1) in SUBJECTS and rng.random() < 0.08:
        new, lead = paradigm[rng.choice((BASE, ING))], rng.choice(("are ", "is ", "am "))
    if lead + new == s.lower(i):
        return False
    return s.put(i, lead + new)


def auxiliary_form(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A wrong form of be, have, do or a modal."""
    places = [i for i in range(len(s)) if s.is_word(i) and s.lower(i) in _BE_SWAPS]
    if not places:
        return False
    weights = [3 if s.lower(i) in BE or s.lower(i) in HAVE or s.lower(i) in DO else 1 for i in places]
    i = rng.choices(places, weights)[0]
    new = rng.choice(_BE_SWAPS[s.lower(i)])
    return not new.startswith("'") and s.put(i, new)


def agreement(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A verb that does not agree with its subject."""
    places: list[tuple[int, str]] = []
    pairs = {
        "is": "are",
        "are": "is",
        "am": "are",
        "was": "were",
        "were": "was",
        "has": "have",
        "have": "has",
        "does": "do",
    }
    pairs |= {"do": "does", "don't": "doesn't", "doesn't": "don't", "isn't": "aren't", "aren't": "isn't"}
    for i in range(len(s)):
        low = s.lower(i)
        if s.is_word(i) and low in pairs and s.lower(i - 1) not in MODALS and s.lower(i - 1) != "to":
            places.append((i, pairs[low]))
            continue
        reading = _reading(s, i, lexicon)
        if reading is None or s.lower(i - 1) in MODALS or s.lower(i - 1) in DO or s.lower(i - 1) == "to":
            continue
        paradigm, slot = reading
        if slot in (BASE, THIRD) and not s.starts(i):
            places += [(i, paradigm[THIRD if slot == BASE else BASE])] * 2
    if not places:
        return False
    i, new = rng.choice(places)
    return s.put(i, new)


_MASS = word_list(
    "information advice knowledge equipment furniture homework research evidence money traffic pollution "
    "software hardware feedback work music luggage progress help experience education transportation food "
    "news behavior training documentation content data machinery technology society nature life time "
    "health freedom permission"
)


def noun_number(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A noun in the wrong number (many problem, a cars, informations)."""
    places: list[tuple[int, str]] = []
    for i in range(len(s)):
        if not s.is_word(i) or s.is_name(i) or len(s.words[i]) < 3:
            continue
        low = s.lower(i)
        before = s.lower(i - 1)
        if low in lexicon.singular:
            if low in lexicon.verbs and before in ("it", "he", "she", "who", "which", "that", "and"):
                continue
            places += [(i, lexicon.singular[low])] * 3
        elif low in _MASS:
            places += [(i, low + "s")] * 2
        elif (
            low in lexicon.plural and before not in ("to", "i", "you", "we", "they") and before not in MODALS
        ):
            likely = before in DETERMINERS or low not in lexicon.verbs
            if likely:
                places.append((i, lexicon.plural[low]))
    if not places:
        return False
    i, new = rng.choice(places)
    low = s.lower(i)
    if new == lexicon.plural.get(low) and not new.endswith("s") and rng.random() < 0.4:
        new = low + "s"
    elif low in lexicon.singular and not low.endswith("s") and rng.random() < 0.4:
        new = low + "s" if rng.random() < 0.6 else lexicon.singular[low] + "s"
    return s.put(i, new)


def comparative(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """More better, more easy, the most easiest, gooder."""
    places: list[tuple[int, str]] = []
    for i in range(len(s)):
        if not s.is_word(i) or s.is_name(i):
            continue
        entry = lexicon.comparative.get(s.lower(i))
        before = s.lower(i - 1)
        if entry is None or len(s.words[i]) < 4:
            if (
                before in ("more", "most")
                and s.is_word(i)
                and s.lower(i) in ("important", "difficult", "beautiful")
            ):
                places.append((i, s.lower(i) + ("er" if before == "more" else "est")))
            continue
        base, more, most = entry
        if s.lower(i) == more and more.endswith("er"):
            places += [(i, "more " + more), (i, "more " + base), (i, base)]
        elif s.lower(i) == most and most.endswith("est"):
            places += [(i, "most " + most), (i, "most " + base), (i, more)]
    if not places:
        return False
    i, new = rng.choice(places)
    return s.put(i, new)


def related_word(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """The adverb for the adjective, the noun for the verb: another word of the same root."""
    places = [
        i for i in range(len(s)) if s.is_word(i) and not s.is_name(i) and s.lower(i) in lexicon.families
    ]
    if not places:
        return False
    i = rng.choice(places)
    return s.put(i, rng.choice(lexicon.families[s.lower(i)]))
