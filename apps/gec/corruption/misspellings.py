"""Spelling errors: the lists of real misspellings first, then slips of the finger and of the ear."""

from __future__ import annotations

from random import Random

from .lexicon import Lexicon
from .sentence import Sentence

_NEIGHBOURS = {
    "q": "wa", "w": "qes", "e": "wrd", "r": "etf", "t": "ryg", "y": "tuh", "u": "yij", "i": "uok", "o": "ipl",
    "p": "ol", "a": "qsz", "s": "adwx", "d": "sfec", "f": "dgrv", "g": "fhtb", "h": "gjyn", "j": "hkum",
    "k": "jli", "l": "kop", "z": "xas", "x": "zcs", "c": "xvd", "v": "cbf", "b": "vng", "n": "bmh", "m": "nj",
}  # fmt: skip

# What sounds alike or is written alike: (in the right word, in the wrong one).
_SOUNDS = [
    ("ie", "ei"), ("ei", "ie"), ("ea", "e"), ("ea", "ee"), ("ee", "ea"), ("ou", "o"), ("ai", "a"),
    ("ai", "ia"),
    ("au", "o"), ("oo", "o"), ("tion", "sion"), ("sion", "tion"), ("tion", "tin"), ("ction", "tion"),
    ("cial", "tial"), ("able", "ible"), ("ible", "able"), ("ance", "ence"), ("ence", "ance"), ("ant", "ent"),
    ("ent", "ant"), ("er", "ar"), ("or", "er"), ("ar", "er"), ("ful", "full"), ("lly", "ly"), ("ly", "lly"),
    ("ely", "ly"), ("y", "ie"), ("ys", "ies"), ("ies", "ys"), ("ph", "f"), ("wh", "w"), ("gh", "g"),
    ("ght", "th"), ("ght", "gth"), ("kn", "n"), ("ck", "k"), ("c", "s"), ("s", "c"), ("c", "k"), ("s", "z"),
    ("z", "s"), ("sc", "s"), ("ch", "sh"), ("x", "cs"), ("qu", "q"), ("que", "k"), ("th", "t"), ("mb", "m"),
    ("a", "e"), ("e", "a"), ("e", "i"), ("i", "e"), ("o", "u"), ("u", "o"), ("a", "o"), ("o", "a"),
    ("i", "y"), ("y", "i"), ("us", "ous"), ("ous", "us"), ("al", "el"), ("el", "al"), ("le", "el"),
    ("re", "er"),
    ("ice", "ise"), ("ate", "at"), ("ment", "mant"), ("ing", "eing"), ("n", "m"), ("t", "d"), ("v", "f"),
    ("j", "g"), ("g", "j"), ("eo", "oe"), ("eau", "eu"), ("ui", "iu"), ("ua", "au"), ("iou", "io"),
    ("ough", "ought"),
]  # fmt: skip
_VOWELS = "aeiou"


def sound_slip(word: str, rng: Random) -> str:
    """A misspelling such as people make who know the word by ear: doubled letters, vowels, endings."""
    kind = rng.random()
    low = word.lower()
    if kind < 0.24:
        doubles = [i for i in range(1, len(low)) if low[i] == low[i - 1]]
        if doubles:
            i = rng.choice(doubles)
            return word[:i] + word[i + 1 :]
    if kind < 0.40:
        singles = [i for i in range(1, len(low) - 1) if low[i] not in _VOWELS + "hwyxqj"]
        if singles:
            i = rng.choice(singles)
            return word[: i + 1] + word[i] + word[i + 1 :]
    if kind < 0.50 and len(low) > 4:
        vowels = [i for i in range(1, len(low)) if low[i] in _VOWELS]
        if vowels:
            i = rng.choice(vowels)
            return word[:i] + word[i + 1 :]
    found = [(a, b) for a, b in _SOUNDS if low.find(a, 1) > 0]
    if not found:
        return finger_slip(word, rng)
    old, new = rng.choice(found)
    places = [i for i in range(1, len(low)) if low.startswith(old, i)]
    i = rng.choice(places)
    return word[:i] + new + word[i + len(old) :]


def finger_slip(word: str, rng: Random) -> str:
    """A slip on the keyboard: a letter lost, doubled, swapped, hit beside, or one too many."""
    i = rng.randrange(1, len(word)) if len(word) > 1 and rng.random() < 0.9 else 0
    kind = rng.random()
    if kind < 0.33 and len(word) > 2:
        return word[:i] + word[i + 1 :]
    if kind < 0.60 and len(word) > 2:
        i = max(1, i)
        return word[: i - 1] + word[i] + word[i - 1] + word[i + 1 :]
    if kind < 0.72:
        return word[:i] + word[i] + word[i:]
    near = _NEIGHBOURS.get(word[i].lower(), "e")
    if kind < 0.90:
        return word[:i] + rng.choice(near) + word[i + 1 :]
    return word[:i] + rng.choice(near) + word[i:]


def misspell(word: str, rng: Random, lexicon: Lexicon, typist: bool) -> str:
    """One misspelling of a word; never the word itself."""
    known = lexicon.misspellings.get(word.lower())
    if known and rng.random() < (0.45 if typist else 0.62):
        return rng.choice(known)
    slip = finger_slip if rng.random() < (0.8 if typist else 0.25) else sound_slip
    new = slip(word, rng)
    if rng.random() < 0.12 and len(word) > 6:
        new = (finger_slip if typist else sound_slip)(new, rng)
    return new if new != word else finger_slip(word, rng)


def spelling(s: Sentence, rng: Random, lexicon: Lexicon, typist: bool = False) -> bool:
    """Misspell one word; longer words more often; names and short words left alone."""
    places = [i for i in range(len(s)) if s.is_word(i) and len(s.words[i]) > 2 and not s.is_name(i)]
    if not places:
        return False
    weights = [min(len(s.words[i]), 11) - (2.2 if not typist else 1.0) for i in places]
    i = rng.choices(places, weights)[0]
    word = s.words[i]
    new = misspell(word.lower(), rng, lexicon, typist)
    if new == word.lower() or not new:
        return False
    return s.put(i, new)


def spelling_typist(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """Misspell one word as a hurried typist does."""
    return spelling(s, rng, lexicon, typist=True)


_JOINS = {
    "a lot", "in front", "at least", "as well", "in fact", "all right", "each other", "no one", "high school",
    "every day", "some times", "may be", "any more", "of course", "such as", "even though", "in spite",
    "more over", "there fore", "every one", "some one", "any one", "up to", "an other",
}  # fmt: skip
_SPLITS = {
    "everyone": "every one", "someone": "some one", "anyone": "any one", "everything": "every thing",
    "something": "some thing", "nowadays": "now a days", "without": "with out", "however": "how ever",
    "therefore": "there fore", "moreover": "more over", "another": "an other", "sometimes": "some times",
    "maybe": "may be", "himself": "him self", "themselves": "them selves", "myself": "my self",
    "yourself": "your self", "itself": "it self", "already": "all ready", "together": "to gether",
    "always": "all ways", "although": "al though", "into": "in to", "everyday": "every day",
    "anything": "any thing", "everybody": "every body", "somebody": "some body", "nobody": "no body",
    "weekend": "week end", "homework": "home work", "classroom": "class room", "nothing": "no thing",
    "understand": "under stand", "outside": "out side", "inside": "in side", "whenever": "when ever",
    "whatever": "what ever", "anymore": "any more", "become": "be come", "within": "with in",
    "lifetime": "life time", "overall": "over all", "instead": "in stead", "ourselves": "our selves",
    "online": "on line", "database": "data base", "website": "web site", "today": "to day",
    "throughout": "through out", "somewhere": "some where", "straightforward": "straight forward",
}  # fmt: skip


def split_or_join(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """One word written as two, two as one, or the space between any two words lost."""
    choices: list[tuple[int, str, int]] = []
    for i in range(len(s)):
        if not s.is_word(i) or s.is_name(i):
            continue
        low = s.lower(i)
        if low in _SPLITS:
            choices += [(i, _SPLITS[low], 0)] * 4
        if s.is_word(i + 1) and s.gaps[i + 1] == " " and not s.is_name(i + 1):
            pair = f"{low} {s.lower(i + 1)}"
            if pair in _JOINS:
                choices += [(i, pair.replace(" ", ""), 1)] * 5
        compound = _compound(low, lexicon, rng) if len(low) > 7 else ""
        if compound:
            choices.append((i, compound, 0))
    if not choices or rng.random() < 0.12:
        return _lose_space(s, rng)
    i, new, also = rng.choice(choices)
    if also:
        s.put_raw(i + 1, "")
    return s.put(i, new)


def _compound(word: str, lexicon: Lexicon, rng: Random) -> str:
    cuts = [k for k in range(3, len(word) - 3) if word[:k] in lexicon.words and word[k:] in lexicon.words]
    if not cuts:
        return ""
    k = rng.choice(cuts)
    return word[:k] + " " + word[k:]


def _lose_space(s: Sentence, rng: Random) -> bool:
    places = [i for i in range(1, len(s)) if s.is_word(i) and s.is_word(i - 1) and s.gaps[i] == " "]
    if not places:
        return False
    i = rng.choice(places)
    s.gaps[i] = ""
    s.free[i] = s.free[i - 1] = False
    s.edits += 1
    return True
