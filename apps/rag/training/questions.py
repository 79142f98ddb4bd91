"""Questions made from a sentence: key words, wh-clozes, definitions, requests, and the noise of real ones.

A made question shares words with its sentence, drops others, and leaves the span it asks for out.
"""

from __future__ import annotations

import re
from random import Random

FUNCTION_WORDS = frozenset(
    [
        "a",
        "an",
        "the",
        "of",
        "in",
        "on",
        "at",
        "to",
        "for",
        "from",
        "by",
        "with",
        "and",
        "or",
        "but",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "being",
        "it",
        "its",
        "this",
        "that",
        "these",
        "those",
        "as",
        "has",
        "have",
        "had",
        "do",
        "does",
        "did",
        "not",
        "no",
        "can",
        "could",
        "will",
        "would",
        "may",
        "might",
        "should",
        "must",
        "if",
        "then",
        "than",
        "there",
        "their",
        "they",
        "he",
        "she",
        "his",
        "her",
        "him",
        "you",
        "your",
        "we",
        "our",
        "us",
        "i",
        "me",
        "my",
        "which",
        "who",
        "whom",
        "whose",
        "what",
        "when",
        "where",
        "why",
        "how",
        "also",
        "such",
        "into",
        "over",
        "about",
        "so",
        "s",
        "t",
        "all",
        "any",
        "some",
        "more",
        "most",
        "other",
        "only",
    ]
)
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*|\d[\d,.]*\d|\d")
_NUMBER = re.compile(r"^\d")
_DEFINED = re.compile(r"^(?:An? |The )?([A-Za-z][\w' -]{2,40}?) (is|are|was|were) (?:an? |the )?\w+")
_WH = {
    "number": ("how many", "how much", "what number of", "when", "in what year", "which year"),
    "name": ("who", "who", "which", "what", "where"),
    "other": ("what", "what", "which", "how", "why", "what kind of"),
}
_REQUESTS = (
    "what does the text say about {}?", "tell me about {}", "what about {}?", "how does {} work?",
    "explain {}", "is there anything about {}?", "{}", "what should I know about {}?",
)  # fmt: skip


def words_of(sentence: str) -> list[str]:
    """Words and numbers of a sentence, in order."""
    return _WORD.findall(sentence)


def stem(word: str) -> str:
    """A word as it is compared: lower case, its ending cut."""
    lower = word.lower().removesuffix("'s").removesuffix("’s")
    return re.sub(r"(?:ies|ied|ing|ed|es|s|e|y)$", "", lower) if len(lower) > 4 else lower


def content_stems(text: str) -> set[str]:
    """Stems of the words that carry meaning."""
    return {stem(w) for w in words_of(text) if w.lower() not in FUNCTION_WORDS}


def _inflected(word: str, rng: Random) -> str:
    if rng.random() > 0.12 or len(word) < 5 or not word.isalpha():
        return word
    if word.endswith(("ed", "ing")):
        return re.sub(r"(?:ed|ing)$", "", word)
    return word[:-1] if word.endswith("s") else word + "s"


def _cloze(words: list[str], rng: Random) -> str:
    """A wh-word in place of a span, and most of the other words in their order."""
    content = [k for k, w in enumerate(words) if w.lower() not in FUNCTION_WORDS]
    if len(content) < 3:
        return _keywords(words, rng)
    numbers = [k for k in content if _NUMBER.match(words[k])]
    names = [k for k in content if words[k][0].isupper()]
    pick = rng.choice(numbers) if numbers and rng.random() < 0.5 else rng.choice(content)
    if names and rng.random() < 0.4:
        pick = rng.choice(names)
    kind = "number" if pick in numbers else "name" if pick in names else "other"
    end = pick + 1 + (rng.random() < 0.35)
    low, high = _window(len(words), pick, rng)
    kept = []
    for k in range(low, high):
        loss = 0.15 if words[k].lower() not in FUNCTION_WORDS else 0.35
        if not pick <= k < end and rng.random() > loss:
            kept.append(_inflected(words[k], rng))
    helper = rng.choice(("", "", "is", "was", "did", "does", "are", "can"))
    return " ".join([rng.choice(_WH[kind]), helper, *kept]).replace("  ", " ") + rng.choice(("?", "?", ""))


def _window(count: int, pick: int, rng: Random) -> tuple[int, int]:
    """Long sentences are asked about in part."""
    size = rng.randint(6, 14)
    if count <= size:
        return 0, count
    low = max(0, min(pick - rng.randint(1, size - 1), count - size))
    return low, low + size


def _keywords(words: list[str], rng: Random) -> str:
    content = [k for k, w in enumerate(words) if w.lower() not in FUNCTION_WORDS and len(w) > 2]
    if not content:
        content = list(range(len(words)))
    chosen = sorted(rng.sample(content, min(len(content), rng.randint(2, 5))))
    return " ".join(_inflected(words[k], rng) for k in chosen)


def _request(words: list[str], rng: Random) -> str:
    content = [k for k, w in enumerate(words) if w.lower() not in FUNCTION_WORDS and len(w) > 2]
    if not content:
        return _keywords(words, rng)
    at = rng.choice(content)
    return rng.choice(_REQUESTS).format(" ".join(words[at : at + rng.randint(1, 3)]))


def make_question(sentence: str, rng: Random) -> str:
    """A question whose answer is the sentence."""
    words = words_of(sentence)
    style = rng.random()
    defined = _DEFINED.match(sentence)
    if defined and style < 0.5:
        subject, verb = defined.groups()
        question = f"{'who' if verb.startswith('w') and rng.random() < 0.4 else 'what'} {verb} {subject}?"
        question = question if rng.random() < 0.8 else rng.choice(_REQUESTS).format(subject)
    elif style < 0.62:
        question = _cloze(words, rng)
    elif style < 0.82:
        question = _keywords(words, rng)
    else:
        question = _request(words, rng)
    if rng.random() < 0.35:
        return question.lower()
    return question[:1].upper() + question[1:]
