"""SuffixDecoding: continuations of the last tokens, by how often they followed before (Oliaro et al. 2411.04975).

Statistics over the row itself (prompt, sources, output) and over outputs of earlier requests. For each length of
match a tree of at most alpha * length + beta nodes is grown best first; the tree that is expected to have the most
tokens accepted wins. Published scores are ratios of counts, which make one occurrence a certainty; here they are
calibrated by length of match and ratio.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from functools import partial
from typing import NamedTuple

from core.drafters.base import Drafter
from core.drafters.calibration import Calibration
from core.drafters.growth import Guess, best_first
from core.drafters.row_texts import texts_beside
from core.drafters.suffix_statistics import Place, SuffixStatistics, Text
from core.drafters.trials import tried
from core.targets.base import PassOutput
from core.types import EMPTY_TREE, DraftTree, Sequence, Verdict

_MAX_LENGTH = 8
_STEPS = 8
#: Nothing follows an end token.
_NOWHERE = SuffixStatistics().start()


class Key(NamedTuple):
    """What an estimate depends on: whose statistics, length of match, share of the continuation in eighths, and
    whether it was seen more than once."""

    is_shared: bool
    length: int
    share: int
    is_repeated: bool


class _RowState:
    def __init__(self, statistics: SuffixStatistics, shared: SuffixStatistics) -> None:
        self.own = statistics
        self.text = Text()
        self.num_read = 0
        # Suffixes of the row's tokens that occur in the shared statistics, longest first.
        self.shared_places: list[Place] = []
        self._shared = shared

    def catch_up(self, row: Sequence) -> None:
        new = row.tokens[self.num_read :]
        self.own.extend(self.text, new)
        for token in new:
            moved = [
                self._shared.advance(place, token) for place in [*self.shared_places, self._shared.start()]
            ]
            kept = [place for place in moved if place is not None]
            self.shared_places = kept[-self._shared.max_length :]
        self.num_read = len(row.tokens)


class SuffixDecoding(Drafter):
    """Trees of what followed the last tokens before.

    `max_length` bounds matches, `max_matches` how many of them (longest first) are tried in each statistics.
    Memory: some 400 bytes for each token: of at most `max_shared_tokens` of earlier outputs, oldest forgotten first
    (26 MB by default), and of the running rows.
    """

    def __init__(
        self,
        *,
        alpha: float = 4.0,
        beta: float = 1.0,
        max_length: int = 24,
        max_matches: int = 3,
        max_shared_tokens: int = 1 << 16,
        eos_token_ids: frozenset[int] = frozenset(),
    ) -> None:
        if alpha < 0 or beta < 0:
            raise ValueError(f"{alpha=} and {beta=} must be 0 or greater")
        if min(max_length, max_matches) < 1:
            raise ValueError(f"{max_length=} and {max_matches=} must be at least 1")
        self.shared = SuffixStatistics(max_length)
        self._alpha, self._beta = alpha, beta
        self._max_matches = max_matches
        self._max_shared_tokens = max_shared_tokens
        self._eos = eos_token_ids
        self._calibration = Calibration(_prior)
        self._rows: dict[int, _RowState] = {}

    def begin(self, row: Sequence) -> None:
        state = self._rows[row.id] = _RowState(SuffixStatistics(self.shared.max_length), self.shared)
        for text in texts_beside(row):
            state.own.read(text)

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        trees = []
        for row, limit in zip(rows, max_nodes, strict=True):
            state = self._rows[row.id]
            state.catch_up(row)
            trees.append(self._best(state, limit) if limit > 0 else EMPTY_TREE)
        return trees

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        self._calibration.record_all(tried(trees, verdicts))

    def end(self, row: Sequence) -> None:
        self._rows.pop(row.id)
        if len(row.output_ids) <= self._max_shared_tokens:
            self.shared.read(row.output_ids)
        while self.shared.num_tokens > self._max_shared_tokens:
            self.shared.forget_oldest()

    def _best(self, state: _RowState, limit: int) -> DraftTree:
        """The tree with the highest expected number of accepted tokens, over all matches."""
        own = [Place(node, 0, length) for node, length in state.text.suffixes[: self._max_matches]]
        best, best_worth = EMPTY_TREE, 0.0
        for statistics, places in ((state.own, own), (self.shared, state.shared_places[: self._max_matches])):
            children = partial(self._children, statistics)
            for place in places:
                size = min(limit, int(self._alpha * place.length + self._beta))
                tree = best_first(place, children, size)
                worth = sum(tree.scores or ())
                if worth > best_worth:
                    best, best_worth = tree, worth
        return best

    def _children(self, statistics: SuffixStatistics, place: Place) -> list[Guess]:
        guesses = []
        for token, count, total, longer in statistics.continuations(place):
            share = _STEPS * count // total
            key = Key(statistics is self.shared, min(place.length, _MAX_LENGTH), share, count > 1)
            behind = _NOWHERE if token in self._eos else longer
            guesses.append((token, self._calibration.estimate(key), key, behind))
        return guesses


def _prior(key: Key) -> float:
    """The ratio of counts, less for short matches and for what was seen once."""
    ratio = min(key.share + 0.5, _STEPS) / _STEPS
    trust = 1 - 0.6 * 0.6 ** (key.length + 2 * key.is_repeated)
    return ratio * trust
