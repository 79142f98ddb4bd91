"""Errors as people make them, put into clean sentences: training data for grammar correction."""

from .corruptor import ERRORS, CorruptionConfig, Corruptor
from .lexicon import Lexicon, builtin_lexicon, load_lexicon
from .sentence import Sentence
from .style import curly, literal, treebank, with_literal

__all__ = [
    "ERRORS",
    "CorruptionConfig",
    "Corruptor",
    "Lexicon",
    "Sentence",
    "builtin_lexicon",
    "curly",
    "literal",
    "load_lexicon",
    "treebank",
    "with_literal",
]
