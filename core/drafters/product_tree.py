"""Trees from guesses that hang on the place alone: whatever stands at one place may follow whatever stood before.

Knows rankings and estimates. Does not know who ranked.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

from core.drafters.calibration import Calibration
from core.drafters.growth import Guess, best_first
from core.drafters.ranking import Ranking, middle_of, step_of
from core.drafters.trials import tried
from core.types import DraftTree, Sequence, Verdict

#: Estimates tell so many ranks apart.
_MAX_RANK = 3


class ProductTrees:
    """The likeliest nodes of the product of all places' guesses, by estimates that are learnt from verdicts. Nothing
    stands behind `end_tokens`."""

    def __init__(self, end_tokens: frozenset[int]) -> None:
        self._end_tokens = end_tokens
        self._calibration = Calibration(_prior)

    def grow(self, row: Sequence, ranking: Ranking, places: Seq[int], limit: int) -> DraftTree:
        """A row's tree; `ranking`'s `places` hold what is guessed at depth 1, 2, ..."""
        kind = "sampled" if row.params.temperature > 0 else "greedy"
        levels: list[list[tuple[int, float, tuple[str, int, int, int]]]] = []
        for depth, m in enumerate(places):
            cells = [
                (kind, depth, min(i, _MAX_RANK), step_of(confidence))
                for i, confidence in enumerate(ranking.confidences[m])
            ]
            estimates = [self._calibration.estimate(cell) for cell in cells]
            levels.append(list(zip(ranking.tokens[m], estimates, cells, strict=True)))

        def children(state: tuple[int, int]) -> list[Guess]:
            depth, token = state
            if depth == len(levels) or token in self._end_tokens:
                return []
            return [(token, estimate, cell, (depth + 1, token)) for token, estimate, cell in levels[depth]]

        return best_first((0, -1), children, limit)

    def learn(self, trees: Seq[DraftTree], verdicts: Seq[Verdict]) -> None:
        self._calibration.record_all(tried(trees, verdicts))


def _prior(cell: tuple[str, int, int, int]) -> float:
    _, depth, _, step = cell
    return 0.85 * 0.85**depth * middle_of(step)
