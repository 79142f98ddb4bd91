"""ERRANT-style names of errors: R:VERB:SVA, M:DET, U:PUNCT, R:SPELL, R:OTHER ...

Knows closed word classes, suffixes and the two neighbours of a change. Does not parse: where a name would need the
syntax of the sentence, it looks at the neighbours, and where those do not tell either it says OTHER. The ERRANT
annotator proper (Bryant et al. 2017) decides with a spaCy model; names here follow its scheme, not its every choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import OSA

from . import words as w
from .alignment import compact, is_word
from .morphology import noun_number, related_by_derivation, same_adjective, verb_change

_CLASSES = (  # first match wins: "that" is a determiner before it is a pronoun
    ("DET", w.DETERMINERS),
    ("PREP", w.PREPOSITIONS),
    ("PRON", w.PRONOUNS),
    ("CONJ", w.CONJUNCTIONS),
)


def _plain(tokens: Sequence[str]) -> list[str]:
    return [t.casefold().replace("’", "'") for t in tokens]


def classify(
    old: Sequence[str], new: Sequence[str], before: Sequence[str] = (), after: Sequence[str] = ()
) -> str:
    """The type of the change from `old` to `new`, standing between `before` and `after` in the corrected text."""
    if not old and not new:
        return "R:ORTH"  # spacing alone
    a, b, left, right = _plain(old), _plain(new), _plain(before), _plain(after)
    if a and b:
        return "R:" + _replacement(a, b, left, right)
    return ("M:" if b else "U:") + _single(b or a, right)


def _single(tokens: list[str], right: list[str]) -> str:
    """The class of tokens that were added or taken away."""
    if all(not is_word(t) for t in tokens):
        return "PUNCT"
    content = [t for t in tokens if is_word(t)]
    if all(t in w.AUXILIARIES for t in content):
        return "VERB:TENSE" if right and _is_verb_form(right[0]) else "VERB"
    if len(content) > 1:
        return "OTHER"
    word = content[0]
    if word.endswith(("'s", "s'")) and word not in {"it's", "that's", "let's", "he's", "she's", "what's"}:
        return "NOUN:POSS"
    if word == "to" and right and right[0] in w.VERB_FORMS:
        return "VERB:FORM"
    if word in w.NEGATIONS:
        return "ADV"
    if word.endswith("ly"):
        return "ADV"
    return _class_of(word) or ("VERB" if word in w.COMMON_VERBS else "OTHER")


def _class_of(word: str) -> str | None:
    return next((name for name, members in _CLASSES if word in members), None)


def _is_verb_form(word: str) -> bool:
    return word in w.VERB_FORMS or word in w.AUXILIARIES or word.endswith(("ing", "ed")) or word == "not"


def two_word_change(old: Sequence[str], new: Sequence[str]) -> str | None:
    """The class of a helper word that came or went together with the form of the word behind it:
    "go" -> "is going", "to swim" -> "swimming", "more tall" -> "taller"; None for anything else."""
    a, b = _plain(old), _plain(new)
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    if len(longer) != 2 or len(shorter) != 1:
        return None
    helper, word = longer
    if helper in w.AUXILIARIES and verb_change(shorter[0], word):
        return "VERB:TENSE"
    if helper == "to" and verb_change(shorter[0], word):
        return "VERB:FORM"
    if helper in {"more", "most"} and same_adjective(shorter[0], word):
        return "ADJ:FORM"
    return None


def _replacement(a: list[str], b: list[str], left: list[str], right: list[str]) -> str:
    """The class of a replacement, without its R."""
    if a == b or "".join(a).replace("-", "") == "".join(b).replace("-", ""):
        return "ORTH"
    if compact(a) and compact(a) == compact(b):
        return _apostrophe(a, b)
    if all(not is_word(t) for t in a + b):
        return "PUNCT"
    if len(a) > 1 and sorted(a) == sorted(b):
        return "WO"
    helped = two_word_change(a, b)
    if helped:
        return helped
    if len(a) == len(b) == 1:
        return _word(a[0], b[0], left, right)
    if all(t in w.AUXILIARIES for t in a + b):
        return "VERB:TENSE"
    return "OTHER"


def _apostrophe(a: list[str], b: list[str]) -> str:
    """Only spaces, hyphens or apostrophes differ."""
    if len(a) != len(b):
        return "ORTH"
    old, new = a[0], b[0]
    if any({old, new} <= pair for pair in w.CONFUSED) or new in w.AUXILIARIES or "n't" in new:
        return "CONTR"
    if new.endswith(("'s", "s'")) and new.split("'")[0] not in w.SUBJECTS:
        return "NOUN:POSS"
    return "CONTR"


def _word(a: str, b: str, left: list[str], right: list[str]) -> str:
    """The class of one word that became another."""
    if any({a, b} <= forms for forms in w.AGREEMENT_SETS):
        return "VERB:SVA"
    for group in (w.BE, w.HAVE, w.DO):
        if a in group and b in group:
            return "VERB:FORM" if b.endswith("ing") or b in {"be", "been", "done"} else "VERB:TENSE"
    if a in w.AUXILIARIES and b in w.AUXILIARIES:
        return "VERB:TENSE" if w.MODALS & {a, b} else "VERB"
    if any({a, b} <= pair for pair in w.CONFUSED):
        return _class_of(b) or "OTHER"
    kind = _class_of(a)
    if kind and any(b in members for name, members in _CLASSES if name == kind):
        return kind
    if {a, b} & (w.DETERMINERS - w.PRONOUNS) and {a, b} <= w.DETERMINERS | w.PRONOUNS:
        return "DET" if b in w.DETERMINERS else "PRON"
    return _open_class(a, b, left, right)


def _open_class(a: str, b: str, left: list[str], right: list[str]) -> str:
    """Nouns, verbs and adjectives: by their forms, then by their letters."""
    number = noun_number(a, b)
    verb = verb_change(a, b)
    if number and not (verb == "SVA" and _looks_like_verb(a, b, left, right)):
        return number
    if verb:
        return f"VERB:{verb}"
    if a.removesuffix("'s") == b.removesuffix("'s") or a.rstrip("'") == b.rstrip("'"):
        return "NOUN:POSS"
    if same_adjective(a, b):
        return "ADJ:FORM"
    if related_by_derivation(a, b):
        return "MORPH"
    known = _class_of(a) is not None or a in w.VERB_FORMS or a in w.AUXILIARIES
    distance = OSA.distance(a, b)
    if not known and is_word(a) and is_word(b) and distance <= max(1, (max(len(a), len(b)) + 1) // 3):
        return "SPELL"
    if a in w.COMMON_VERBS and b in w.COMMON_VERBS:
        return "VERB"
    return "OTHER"


def _looks_like_verb(a: str, b: str, left: list[str], right: list[str]) -> bool:
    """Whether "like/likes" between these neighbours is the verb."""
    last = left[-1] if left else ""
    if last in w.SUBJECTS - w.DETERMINERS or last in w.MODALS or last in {"to", "not"}:
        return True
    if last in w.DETERMINERS or last in w.PREPOSITIONS or last.isdigit():
        return False
    follows = right[0] if right else ""
    if a in w.COMMON_VERBS or b in w.COMMON_VERBS:
        return True
    return follows in w.DETERMINERS or follows in w.PRONOUNS
