"""How many draft nodes a pass should verify: the number that yields most tokens a second on this machine.

Knows measured pass times and estimated acceptance. Does not know drafters or models.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Protocol

import numpy as np

from core.types import DraftTree

#: Before anything is measured: a pass over so many queries costs twice a pass over one. A GPU reads all weights for
#: a single token, so it has arithmetic to spare for many more than a CPU.
ASSUMED_DOUBLING = {"cpu": 24, "cuda": 256}
#: Measurements of a shape that are thrown away: kernels are prepared at the first call.
_WARM_UP = 1
#: So many measurements of a shape weigh as much as what the other shapes say about it.
_TRUST = 6
#: Measurements above this number make a shape weigh no more in the line.
_FULL_WEIGHT = 16
#: What a pass weighs in the rate of late when the next one is over, and the passes after which the rate counts.
_MEMORY = 0.97
_FEW_PASSES = 8


class Budget(Protocol):
    """Decides the width of a pass and learns what passes cost."""

    def limit(self, num_rows: int) -> int:
        """The most nodes that are worth drafting for each row."""
        ...

    def choose(self, trees: Seq[DraftTree]) -> Seq[int]:
        """How many of its first nodes each row verifies in the next pass; 0 is plain decoding."""
        ...

    def record(self, num_rows: int, num_queries: int, num_tokens: int, seconds: float) -> None:
        """A pass over `num_rows` rows with `num_queries` queries in all wrote so many tokens in so long."""
        ...


class FixedBudget:
    """Always the same number of nodes: for tests and comparisons."""

    def __init__(self, num_nodes: int) -> None:
        self.num_nodes = num_nodes

    def limit(self, num_rows: int) -> int:
        return self.num_nodes

    def choose(self, trees: Seq[DraftTree]) -> Seq[int]:
        return [self.num_nodes] * len(trees)

    def record(self, num_rows: int, num_queries: int, num_tokens: int, seconds: float) -> None:
        """Nothing to learn."""


class PassTimes:
    """T(rows, queries of all rows together), measured while decoding.

    Each shape keeps a running estimate that follows a drop quickly and an outlier slowly. A shape counts for
    itself as far as it was measured, and for the rest it is read off the line through all shapes (a fixed cost,
    and a cost for each query): one unlucky measurement would otherwise keep a shape from ever being tried again.
    """

    def __init__(self, doubling: int = ASSUMED_DOUBLING["cpu"]) -> None:
        self._doubling = doubling
        self._seen: dict[tuple[int, int], tuple[int, float]] = {}
        self._line: tuple[float, float] | None = None

    def record(self, num_rows: int, num_queries: int, seconds: float) -> None:
        count, estimate = self._seen.get((num_rows, num_queries), (0, seconds))
        if count <= _WARM_UP:
            estimate = seconds
        else:
            weight = 0.3 if seconds < estimate else 0.05
            estimate += weight * (seconds - estimate)
        self._seen[num_rows, num_queries] = (count + 1, estimate)
        self._line = None

    def predict(self, num_rows: int, num_queries: int) -> float:
        count, estimate = self._seen.get((num_rows, num_queries), (0, 0.0))
        if self._line is None:
            self._line = self._fit()
        fixed, slope = self._line
        measured = max(count - _WARM_UP, 0)
        line = fixed + slope * num_queries
        return line + (estimate - line) * measured / (measured + _TRUST)

    def _fit(self) -> tuple[float, float]:
        """Least squares through (queries, seconds, weight), held near the assumed shape while little is known."""
        points = [
            (queries, seconds, min(count - _WARM_UP, _FULL_WEIGHT))
            for (_, queries), (count, seconds) in self._seen.items()
            if count > _WARM_UP
        ]
        if not points:
            return 1.0, 1.0 / self._doubling
        weights = sum(w for _, _, w in points)
        level = sum(w * t / (1 + x / self._doubling) for x, t, w in points) / weights
        points += [(1, level * (1 + 1 / self._doubling), 1), (self._doubling, 2 * level, 1)]
        weights += 2
        mean_x = sum(w * x for x, _, w in points) / weights
        mean_t = sum(w * t for _, t, w in points) / weights
        spread = sum(w * (x - mean_x) ** 2 for x, _, w in points)
        slope = max(sum(w * (x - mean_x) * (t - mean_t) for x, t, w in points) / spread, 0.0)
        # A fixed cost below the assumed one's tenth is noise of a line that is bent.
        return max(mean_t - slope * mean_x, 0.1 * level), slope


class TokenRate:
    """Tokens a second that decoding yields of late, by the size of the batch (its bit length)."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[float, float, int]] = {}

    def record(self, num_rows: int, num_tokens: int, seconds: float) -> None:
        tokens, spent, count = self._sums.get(num_rows.bit_length(), (0.0, 0.0, 0))
        self._sums[num_rows.bit_length()] = (
            _MEMORY * tokens + num_tokens,
            _MEMORY * spent + seconds,
            count + 1,
        )

    def get(self, num_rows: int) -> float | None:
        """None until a few passes were seen."""
        tokens, spent, count = self._sums.get(num_rows.bit_length(), (0.0, 0.0, 0))
        return tokens / spent if count >= _FEW_PASSES and spent > 0 else None


class MeasuredBudget:
    """Verifies what yields more tokens than the same time yields elsewhere, so a loaded engine falls back to plain
    decoding by itself.

    The number of nodes maximises expected tokens less seconds times the rate of late (Dinkelbach's method for a
    ratio of sums, one step a pass). A pass's own rate would be the wrong measure: sure drafts make it high, and
    what is then left out costs a pass of its own.

    `bucket` rounds a row's query count up to the shape that will really run. `flat_bucket` does so for the queries
    of all rows together, where a target leaves out the padding between rows: then every row gets the nodes that
    pay, else all rows the same number. `doubling` is how many queries are assumed to double a pass's time before
    passes were measured; `max_nodes` bounds one row's tree and `max_queries` all rows' queries together.
    """

    def __init__(
        self,
        bucket: Callable[[int], int],
        flat_bucket: Callable[[int], int] | None = None,
        *,
        doubling: int = ASSUMED_DOUBLING["cpu"],
        max_nodes: int = 127,
        max_queries: int = 4096,
    ) -> None:
        self.times = PassTimes(doubling)
        self.rates = TokenRate()
        self._bucket = bucket
        self._flat_bucket = flat_bucket
        self._max_nodes = max_nodes
        self._max_queries = max_queries
        self._widths = sorted({self._bucket(q) for q in range(1, max_nodes + 2)})

    def limit(self, num_rows: int) -> int:
        return max(1, min(self._max_nodes, self._max_queries // num_rows))

    def choose(self, trees: Seq[DraftTree]) -> Seq[int]:
        longest = max(len(tree) for tree in trees)
        if longest == 0:
            return [0] * len(trees)
        if self._flat_bucket is not None and len(trees) > 1:
            return self._share(trees, self._flat_bucket)
        num_rows = len(trees)
        gains = _expected_tokens(trees, longest)
        options = [(0, num_rows)]
        for width in self._widths:
            nodes = min(width - 1, longest)
            options.append((nodes, num_rows * width))
            if nodes == longest:
                break
        return [self._best(num_rows, options, gains)] * num_rows

    def _share(self, trees: Seq[DraftTree], flat_bucket: Callable[[int], int]) -> Seq[int]:
        """The likeliest nodes of all rows, as many as pay."""
        scores = np.concatenate([_falling(tree) for tree in trees])
        rows = np.repeat(np.arange(len(trees)), [len(tree) for tree in trees])
        best_first = np.argsort(-scores, kind="stable")
        num_rows, total = len(trees), len(trees) + len(scores)
        gains = np.concatenate(([0.0], np.cumsum(scores[best_first]))).tolist()
        options = [(0, flat_bucket(num_rows))]
        while options[-1][1] < total:
            size = flat_bucket(options[-1][1] + 1)
            options.append((min(size, total) - num_rows, size))
        nodes = self._best(num_rows, options, gains)
        counts: list[int] = np.bincount(rows[best_first[:nodes]], minlength=num_rows).tolist()
        return counts

    def _best(self, num_rows: int, options: Seq[tuple[int, int]], gains: Seq[float]) -> int:
        """The first of the pair (nodes, queries of the pass) that is worth most."""
        timed = [(nodes, self.times.predict(num_rows, size)) for nodes, size in options]
        late = self.rates.get(num_rows)
        if late is None:
            return max(timed, key=lambda option: (num_rows + gains[option[0]]) / option[1])[0]
        # Plain decoding's rate can always be had, whatever drafts have promised and not kept.
        rate = max(late, num_rows / timed[0][1])
        return max(timed, key=lambda option: gains[option[0]] - rate * option[1])[0]

    def record(self, num_rows: int, num_queries: int, num_tokens: int, seconds: float) -> None:
        self.times.record(num_rows, num_queries, seconds)
        self.rates.record(num_rows, num_tokens, seconds)


def _falling(tree: DraftTree) -> np.ndarray:
    """A tree's scores, none above one before it, so that the best nodes of a tree are always its first."""
    if tree.scores is None:
        return np.ones(len(tree))
    return np.minimum.accumulate(np.asarray(tree.scores, dtype=np.float64))


def _expected_tokens(trees: Seq[DraftTree], longest: int) -> list[float]:
    """Expected accepted tokens of all rows together when each verifies its first n nodes, for n = 0..longest."""
    gains = [0.0] * (longest + 1)
    for tree in trees:
        for i in range(len(tree)):
            gains[i + 1] += 1.0 if tree.scores is None else tree.scores[i]
    for n in range(longest):
        gains[n + 1] += gains[n]
    return gains
