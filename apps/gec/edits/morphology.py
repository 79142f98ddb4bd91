"""Whether two English words are forms of one another, and which form became which.

Knows suffixes and the irregular tables of `words`. Does not know the sentence, so "walks" may be a noun or a verb
here: both answers are given and the caller chooses.
"""

from __future__ import annotations

from . import words as w

_DERIVATIONS = frozenset(
    [
        "ly",
        "ness",
        "ment",
        "tion",
        "ation",
        "sion",
        "ity",
        "al",
        "ial",
        "ful",
        "less",
        "ous",
        "ious",
        "able",
        "ible",
        "ive",
        "ant",
        "ent",
        "ance",
        "ence",
        "ism",
        "ist",
        "er",
        "or",
        "y",
        "ic",
        "ical",
        "ally",
        "ed",
        "ing",
        "ship",
        "hood",
        "ize",
        "ise",
        "ar",
        "ary",
    ]
)

_IRREGULAR_DEGREES = [{"more", "most"}, {"good", "better", "best"}, {"bad", "worse", "worst"}]
# One ending, spelt wrongly: a misspelling and not another word of the family.
_MISSPELT_ENDINGS = [
    {"ent", "ant"},
    {"ence", "ance"},
    {"able", "ible"},
    {"er", "or"},
    {"tion", "sion"},
    {"er", "ar"},
    {"y", "ly"},
    {"e", "ed"},
]


def plurals(word: str) -> set[str]:
    """Regular spellings of `word` with the ending -s: plural of a noun, third person of a verb."""
    forms = {word + "s"}
    if word.endswith(("s", "x", "z", "ch", "sh", "o")):
        forms.add(word + "es")
    if word.endswith("y") and len(word) > 2 and word[-2] not in "aeiou":
        forms = {word[:-1] + "ies"}
    return forms


def _suffixed(word: str, suffix: str) -> set[str]:
    """Regular spellings of `word` with -ed, -ing, -er or -est: plain, e dropped, consonant doubled, y to i."""
    forms = {word + suffix}
    if word.endswith("e"):
        forms = {word[:-1] + suffix} | ({word + suffix} if word.endswith("ee") else set())
    elif len(word) > 2 and word[-1] not in "aeiouwxy" and word[-2] in "aeiou":
        forms.add(word + word[-1] + suffix)
    if word.endswith("y") and word[-2:-1] not in set("aeiou") and not suffix.startswith("i"):
        forms = {word[:-1] + "i" + suffix}
    return forms


def noun_number(a: str, b: str) -> str | None:
    """NOUN:NUM for singular and plural of one noun, NOUN:INFL for a plural that was formed wrongly."""
    if w.NOUN_PLURALS.get(a) == b or w.NOUN_PLURALS.get(b) == a:
        return "NOUN:NUM"
    singular = w.NOUN_SINGULARS.get(b)
    if singular and (a in plurals(singular) or a in plurals(b)):
        return "NOUN:INFL"
    for one, many in ((a, b), (b, a)):
        if many in plurals(one) and len(one) > 1:
            return "NOUN:NUM"
    return None


def _lemmas(word: str) -> dict[str, set[str]]:
    """Verb lemmas that `word` may be a form of, each with the kinds of form: base, s, past, part, ing."""
    found: dict[str, set[str]] = {word: {"base"}}
    if word in w.VERB_FORMS:
        lemma, kinds = w.VERB_FORMS[word]
        found.setdefault(lemma, set()).update(kinds)
        if lemma != word and "base" not in kinds:
            found.pop(word)
    stems = {"s": ("s",), "past": ("ed", "d"), "ing": ("ing",)}
    for kind, suffixes in stems.items():
        for suffix in suffixes:
            if word.endswith(suffix) and len(word) > len(suffix) + 1:
                for lemma in _stems(word, word[: -len(suffix)], suffix):
                    found.setdefault(lemma, set()).add(kind)
                    if kind == "past":
                        found[lemma].add("part")
    return found


def _stems(word: str, stem: str, suffix: str) -> set[str]:
    """Bases that give `word` by a regular rule."""
    candidates = {stem, stem + "e", stem.removesuffix("e")}
    if stem.endswith("i"):
        candidates.add(stem[:-1] + "y")
    if stem.endswith("ie"):
        candidates.add(stem[:-2] + "y")
    if len(stem) > 2 and stem[-1] == stem[-2]:
        candidates.add(stem[:-1])
    if suffix == "s":
        return {c for c in candidates if c and word in plurals(c)}
    full = "ed" if suffix == "d" else suffix
    return {c for c in candidates if len(c) > 1 and word in _suffixed(c, full)}


def verb_change(a: str, b: str) -> str | None:
    """SVA, TENSE, FORM or INFL if `a` and `b` may be forms of one verb."""
    if a == b:
        return None
    old, new = _lemmas(a), _lemmas(b)
    for lemma in sorted(set(old) & set(new), key=lambda x: (x not in w.VERB_FORMS, len(x))):
        if lemma in w.VERB_FORMS and "past" in old[lemma] and a not in w.VERB_FORMS:
            return "INFL"  # goed -> went
        return _form_change(old[lemma], new[lemma])
    return None


def _form_change(old: set[str], new: set[str]) -> str:
    if old <= {"base", "s"} and new <= {"base", "s"}:
        return "SVA"
    if "ing" in old or "ing" in new:
        return "FORM"
    if ("past" in old) != ("past" in new):
        return "TENSE"
    return "FORM"


def same_adjective(a: str, b: str) -> bool:
    """Degrees of one adjective: big, bigger, biggest."""
    for base, other in ((a, b), (b, a)):
        if other in _suffixed(base, "er") | _suffixed(base, "est"):
            return True
    return any({a, b} <= degrees for degrees in _IRREGULAR_DEGREES)


def related_by_derivation(a: str, b: str) -> bool:
    """Whether both are one stem of four letters or more with different (known or no) derivational endings."""
    common = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        common += 1
    for stem in range(common, 3, -1):
        if {a[stem:], b[stem:]} in _MISSPELT_ENDINGS:
            return False
        if stem * 2 >= min(len(a), len(b)) and _endings(a[stem:], b[stem:]):
            return True
    return False


def _endings(a: str, b: str) -> bool:
    """Whether two endings of one stem make two words of a family: one of them at least is a real suffix."""
    plain = {"", "e", "t", "ce", "y"}
    return (a in _DERIVATIONS or b in _DERIVATIONS) and {a, b} <= _DERIVATIONS | plain
