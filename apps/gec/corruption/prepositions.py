"""Errors with prepositions: wrong, missing, too many."""

from __future__ import annotations

from random import Random

from .inflections import BE, DETERMINERS
from .lexicon import Lexicon
from .sentence import Sentence
from .tables import word_set

_SWAPS = {
    "in": "on at into of for to with by", "on": "in at of about to for", "at": "in on to of by",
    "to": "for in at of on with into",
    "for": "to of in about from", "of": "in for from on about to with", "with": "by in to of from for",
    "by": "with from in of for",
    "from": "of in by on to for", "about": "of on for in with", "into": "in to on", "as": "like for",
    "like": "as",
    "than": "then that from", "between": "among in", "among": "between", "during": "in while for",
    "since": "from for",
    "through": "by in throughout", "over": "on above", "after": "since from", "before": "until",
    "until": "to till by",
    "within": "in", "without": "with", "against": "for to", "under": "in below", "toward": "to",
    "towards": "to for",
    "onto": "on", "upon": "on", "across": "in through", "despite": "despite&of in&spite although",
    "because": "because&of", "although": "despite but", "while": "during when", "if": "whether when",
    "whether": "if weather",
    "so": "so&that", "and": "but or", "but": "and however", "that": "which what who",
    "which": "that who what",
    "who": "which that whose whom", "where": "which that", "when": "while where", "what": "that which",
    "how": "what",
}  # fmt: skip
_AFTER_VERB = (
    "discuss:about mention:about explain:about enter:to,into reach:to,at contact:with,to marry:with,to "
    "answer:to affect:to,on approach:to request:for emphasize:on,about consider:about,as join:to,in "
    "lack:of,in visit:to,in attend:to,in leave:from resemble:to stress:on support:to,for face:with,to "
    "help:to,for need:of,for use:of influence:on,to call:to ask:to tell:to know:about,of home:to "
    "here:in,to there:in,to abroad:to,in"
)
_EXTRA = {item.split(":")[0]: item.split(":")[1].split(",") for item in _AFTER_VERB.split()}
_DROP = word_set("to of for in on at with about from by as that up into")


def preposition(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """One preposition (or linking word) wrong, missing or too many."""
    kind = rng.random()
    if kind < 0.58:
        return _swap(s, rng)
    if kind < 0.84:
        places = [
            i for i in range(1, len(s) - 1) if s.is_word(i) and s.lower(i) in _DROP and s.is_word(i + 1)
        ]
        return bool(places) and s.put(rng.choice(places), "")
    return _extra(s, rng, lexicon)


def _swap(s: Sentence, rng: Random) -> bool:
    places = [i for i in range(len(s)) if s.is_word(i) and s.lower(i) in _SWAPS]
    if not places:
        return False
    weights = [3 if s.lower(i) in _DROP else 1 for i in places]
    i = rng.choices(places, weights)[0]
    options = _SWAPS[s.lower(i)].split()
    # The first named are the commonest confusions.
    new = options[min(int(rng.expovariate(0.7)), len(options) - 1)]
    return s.put(i, new.replace("&", " "))


def _extra(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    places = []
    for i in range(1, len(s)):
        if not (s.is_word(i) and s.is_word(i - 1)):
            continue
        readings = lexicon.verbs.get(s.lower(i - 1))
        lemma = readings[0][0][0] if readings else s.lower(i - 1)
        if lemma in _EXTRA and s.lower(i) in DETERMINERS:
            places += [(i, rng.choice(_EXTRA[lemma]))] * 6
        elif readings and s.lower(i) in DETERMINERS and s.lower(i - 1) not in BE:
            places.append((i, rng.choice(("to", "for", "of", "on", "in", "about", "with"))))
        elif s.lower(i) in ("here", "there", "home", "abroad", "today", "now", "next", "last"):
            places.append((i, rng.choice(("in", "to", "at", "on"))))
    if not places:
        return False
    i, new = rng.choice(places)
    return s.put_raw(i, f"{new} {s.words[i]}")
