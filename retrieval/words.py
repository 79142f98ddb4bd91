"""Words of a text as BM25 counts them: lower case, without stop words, stemmed; of one language or of any."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType

WORD = re.compile(r"\w+")


def words(text: str, language: str | None) -> list[str]:
    """The terms of a text in order. `language` None keeps every word as it is, in lower case."""
    found = WORD.findall(text.lower())
    if language is None:
        return found
    stop, stem = _language(language)
    return stem([word for word in found if word not in stop])


@cache
def _language(language: str) -> tuple[frozenset[str], Callable[[list[str]], list[str]]]:
    """Stop words (where bm25s lists them) and the Snowball stemmer of a language."""
    stemming, listed = extra("Stemmer"), extra("bm25s.stopwords")
    if language not in stemming.algorithms():
        raise ValueError(
            f"language {language!r} is unknown; one of {', '.join(stemming.algorithms())}, or None"
        )
    name = "STOPWORDS_EN" if language == "english" else f"STOPWORDS_{language.upper()}"
    # A stemmer object is not for several threads at once; making one is cheap.
    return frozenset(getattr(listed, name, ())), lambda found: list(
        stemming.Stemmer(language).stemWords(found)
    )


def extra(module: str) -> ModuleType:
    """A module of the extra `bm25`."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError("BM25 needs the extra 'bm25': pip install 'echodraft[bm25]'") from error
