"""Puts several errors into a clean sentence, drawn like those of a learner, typist, native writer or poor speller."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from . import (
    auxiliaries,
    confusables,
    determiners,
    inflections,
    misspellings,
    order,
    prepositions,
    punctuation,
)
from .lexicon import Lexicon
from .sentence import Sentence

ErrorMaker = Callable[[Sentence, Random, Lexicon], bool]

# Error maker -> weight for (learner, typist, native writer, poor speller).
ERRORS: dict[ErrorMaker, tuple[float, float, float, float]] = {
    misspellings.spelling: (26, 20, 14, 60),
    misspellings.spelling_typist: (3, 30, 4, 8),
    misspellings.split_or_join: (2.2, 5, 5, 5),
    determiners.article: (16, 3, 8, 4),
    determiners.determiner: (3.5, 1, 2, 0),
    inflections.noun_number: (11, 4, 6, 3),
    inflections.verb_form: (11, 3, 5, 3),
    inflections.auxiliary_form: (4, 1, 2, 0),
    inflections.agreement: (8, 3, 7, 3),
    inflections.comparative: (1.5, 0.3, 0.5, 0),
    inflections.related_word: (4.5, 1, 1.5, 0),
    prepositions.preposition: (11, 3, 6, 0),
    confusables.confused_word: (5, 5, 10, 5),
    confusables.pronoun: (2, 0.5, 2, 0),
    confusables.apostrophe: (2.5, 5, 8, 3),
    auxiliaries.missing_auxiliary: (3, 1.5, 2, 0),
    auxiliaries.extra_auxiliary: (2.5, 0.5, 1, 0),
    auxiliaries.missing_word: (2.5, 4, 4, 0),
    auxiliaries.doubled_word: (0.8, 3, 3, 0),
    auxiliaries.extra_word: (1.5, 1, 2, 0),
    order.word_order: (2, 1, 1, 0),
    order.adverb_moves: (1.2, 0.3, 0.4, 0),
    punctuation.comma: (14, 4, 14, 6),
    punctuation.run_on: (3, 2, 4, 0),
    punctuation.broken_sentence: (1, 0.5, 1, 0),
    punctuation.final_mark: (2, 4, 4, 2),
    punctuation.spacing: (2, 4, 3, 0),
    punctuation.capital: (4, 6, 5, 3),
    punctuation.hyphen: (0.5, 1, 3, 0),
    punctuation.all_lower: (0.5, 2, 1, 1),
}
_MAKERS = list(ERRORS)


@dataclass(frozen=True)
class CorruptionConfig:
    """How much, how often and in whose manner."""

    clean_share: float = 0.36
    # Of what a small model misses in learners' essays, spelling is the largest part, and it learns that word by word:
    # a poor speller shows it many misspelt words in one sentence.
    profiles: tuple[float, float, float, float] = (0.48, 0.13, 0.15, 0.24)
    # Errors per word in the long run for each profile, and for a share of the learners' sentences.
    density: tuple[float, float, float, float] = (0.12, 0.08, 0.05, 0.25)
    heavy_share: float = 0.28
    heavy_density: float = 0.21


class Corruptor:
    """Makes wrong sentences out of right ones; the same seed gives the same errors."""

    def __init__(self, lexicon: Lexicon, config: CorruptionConfig | None = None) -> None:
        self.lexicon = lexicon
        self.config = config or CorruptionConfig()
        self._weights = list(zip(*ERRORS.values(), strict=True))

    def __call__(self, text: str, rng: Random) -> str:
        """The text with errors, or as it is (a share of `clean_share`)."""
        if rng.random() < self.config.clean_share:
            return text
        return self.corrupt(text, rng)

    def corrupt(self, text: str, rng: Random) -> str:
        """The text with at least one error where one can be made; never an empty text."""
        profile = rng.choices(range(len(self._weights)), self.config.profiles)[0]
        sentence = Sentence(text)
        size = sum(1 for i in range(len(sentence)) if sentence.is_word(i))
        density = self.config.density[profile]
        if profile == 0 and rng.random() < self.config.heavy_share:
            density = self.config.heavy_density
        wanted = 1 + _poisson(max(0.0, density * size - 0.4), rng)
        # A word may be hit once only; a third of the words is the most that stays recoverable.
        wanted = min(wanted, max(1, size // 3))
        weights = self._weights[profile]
        done = 0
        for _ in range(wanted * 4 + 6):
            if done >= wanted:
                break
            maker = rng.choices(_MAKERS, weights)[0]
            done += bool(maker(sentence, rng, self.lexicon))
        new = sentence.text()
        return new if new.strip() else text


def _poisson(mean: float, rng: Random) -> int:
    limit, product, count = math.exp(-mean), rng.random(), 0
    while product > limit:
        product *= rng.random()
        count += 1
    return count
