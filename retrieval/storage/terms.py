"""BM25 over passages of words (Robertson and Zaragoza 2009, Lucene's variant) through bm25s; knows no language.

Everything about a passage and a term is one number, computed when the index is built; a score is a sum of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from retrieval.storage.metric import Floats
from retrieval.words import extra


@dataclass(frozen=True)
class Statistics:
    """What BM25 knows of a corpus: number of passages, their average length in words, and its constants."""

    num_passages: int
    average_length: float
    k1: float
    b: float


class TermIndex:
    """Scores of terms in passages; `ranked` is bm25s's index, None where there is not one word in the corpus."""

    def __init__(self, ranked: Any, statistics: Statistics) -> None:
        self.ranked, self.statistics = ranked, statistics

    @classmethod
    def of(cls, corpus: Sequence[list[str]], k1: float, b: float) -> TermIndex:
        lengths = [len(terms) for terms in corpus]
        statistics = Statistics(len(corpus), float(np.mean(lengths)) if lengths else 0.0, k1, b)
        if not any(lengths):
            return cls(None, statistics)
        ranked = extra("bm25s").BM25(k1=k1, b=b, method="lucene", backend="numpy")
        ranked.index(corpus, show_progress=False, create_empty_token=False)
        return cls(ranked, statistics)

    @classmethod
    def read(cls, folder: Path, statistics: Statistics) -> TermIndex:
        if not (folder / "params.index.json").exists():
            return cls(None, statistics)
        return cls(extra("bm25s").BM25.load(folder, mmap=True, show_progress=False), statistics)

    def write(self, folder: Path) -> None:
        if self.ranked is not None:
            self.ranked.save(folder, show_progress=False)

    def _known(self, terms: list[str]) -> list[int]:
        return self.ranked.get_tokens_ids(terms) if self.ranked is not None else []

    def every_score(self, terms: list[str]) -> Floats:
        """Scores `[n]` of every passage."""
        known = self._known(terms)
        if not known:
            return np.zeros(self.statistics.num_passages, dtype=np.float32)
        return np.asarray(self.ranked.get_scores_from_ids(known), dtype=np.float32)

    def scores(self, terms: list[str], positions: npt.NDArray[np.int64]) -> Floats:
        """Scores `[n]` of some passages: `every_score(terms)[positions]` to the last bit, without the others."""
        total = np.zeros(len(positions), dtype=np.float32)
        for term in self._known(terms):  # the same order of summing as in bm25s
            start, end = self.ranked.scores["indptr"][term : term + 2]
            holders, weights = self.ranked.scores["indices"][start:end], self.ranked.scores["data"][start:end]
            place = np.minimum(np.searchsorted(holders, positions), len(holders) - 1)
            total += np.where(holders[place] == positions, weights[place], np.float32(0))
        return total

    def document_frequency(self, term: str) -> int:
        """In how many passages a term stands."""
        return sum(
            int(np.diff(self.ranked.scores["indptr"][known : known + 2])[0]) for known in self._known([term])
        )

    def score_of(self, terms: list[str], passage: list[str]) -> float:
        """The score of any passage, of the corpus or not, by the corpus's statistics; in double precision."""
        known, counts = self.statistics, Counter(passage)
        longer = len(passage) / known.average_length if known.average_length else 0.0
        damping = known.k1 * (1 - known.b + known.b * longer)
        total = 0.0
        for term in terms:
            if counts[term] and (holders := self.document_frequency(term)):
                rarity = np.log(1 + (known.num_passages - holders + 0.5) / (holders + 0.5))
                total += float(rarity) * counts[term] / (counts[term] + damping)
        return total
