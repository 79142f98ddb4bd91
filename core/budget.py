"""How many draft nodes a pass should verify: the number that yields most tokens a second on this machine.

Knows measured pass times and estimated acceptance. Does not know drafters or models.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import NamedTuple, Protocol

import numpy as np

from core.ledger import Ledger
from core.types import DraftTree

#: Before anything is measured: a pass over so many queries costs twice a pass over one. A GPU reads all weights for
#: a single token, so it has arithmetic to spare for many more than a CPU.
ASSUMED_DOUBLING = {"cpu": 24, "cuda": 256}
#: What a row adds to a pass besides its queries (the loop's own work), assumed in queries.
_ASSUMED_ROW = 0.5
#: Passes that the assumed costs weigh as much as.
_ASSUMED_WEIGHT = 0.3
#: What a pass weighs in the line through all passes when the next one is over.
_REMEMBERED = 0.995
#: The line is drawn anew behind every pass at first, then behind every so many.
_OFTEN = 8
#: A time that less than so much of a pass speaks for is vague.
_VAGUE = 0.3
#: So many measurements of a shape weigh as much as what the line says about it; no more than so many are averaged.
_TRUST, _AVERAGED = 20, 60
#: A pass that takes longer than so many times the line counts as so long, unless the one before it did, too.
_OUTLIER = 1.4
#: What a pass weighs in the rate of late when the next one is over, and the passes after which the rate counts.
_MEMORY = 0.97
_FEW_PASSES = 8
#: More nodes than the best number are taken where that loses no more than this share of the pass and they bring half of
#: what they cost: among numbers that are about equally good the choice would hang on noise.
_SLACK = 0.03


class Budget(Protocol):
    """Decides the width of a pass and learns what passes cost."""

    def limit(self, num_rows: int) -> int:
        """The most nodes that are worth drafting for each row."""
        ...

    def choose(self, trees: Seq[DraftTree]) -> Seq[int]:
        """How many of its first nodes each row verifies in the next pass; 0 is plain decoding."""
        ...

    def record(
        self, num_rows: int, num_queries: int, num_tokens: int, seconds: float, drafting: float = 0.0
    ) -> None:
        """A pass over `num_rows` rows with `num_queries` queries in all wrote so many tokens in so many seconds, and
        so many more went into drafts."""
        ...


class FixedBudget:
    """Always the same number of nodes: for tests and comparisons."""

    def __init__(self, num_nodes: int) -> None:
        self.num_nodes = num_nodes

    def limit(self, num_rows: int) -> int:
        return self.num_nodes

    def choose(self, trees: Seq[DraftTree]) -> Seq[int]:
        return [self.num_nodes] * len(trees)

    def record(
        self, num_rows: int, num_queries: int, num_tokens: int, seconds: float, drafting: float = 0.0
    ) -> None:
        """Nothing to learn."""


class _Shape(NamedTuple):
    """A shape's mean time over the line's, from so many measurements; `last` is the pass that brought the latest."""

    ratio: float
    times: float
    last: int


class PassTimes:
    """T(rows, queries of all rows together), measured while decoding.

    A plane through the passes of late: a fixed cost, one for each row and one for each query, by least squares of
    the relative errors. Rows and queries must be told apart: with the same few nodes in every row they grow
    together, and a query to which the rows' cost is charged looks too dear for more nodes to be ever tried. Where
    the passes of late leave the plane open, the assumed shape decides, so that what was learnt from a bad start, or
    about widths that were given up, is forgotten and tried again. A shape's own deviation counts as far as it was
    measured, and fades as well.
    """

    def __init__(self, doubling: int = ASSUMED_DOUBLING["cpu"]) -> None:
        self._assumed = np.array([1.0, _ASSUMED_ROW / doubling, 1.0 / doubling])
        # Passes (1, rows, queries) that tell the three apart.
        self._typical = np.array([[1.0, 1, 1], [1, 1, doubling], [1, doubling, doubling]])
        self._squares, self._products = np.zeros((3, 3)), np.zeros(3)
        self._known = self._squares
        self._level, self._weight = 0.0, 0.0
        self._num_passes = self._num_taken = 0
        self._ratio_before = 1.0
        self._warm: set[int] = set()
        self._shapes: dict[tuple[int, int], _Shape] = {}
        self._plane = self._assumed
        self._costs: list[float] | None = None

    def record(self, num_rows: int, num_queries: int, seconds: float) -> bool:
        """Whether the measurement was taken: kernels are prepared at the first call, which is left out."""
        self._num_passes += 1
        if num_queries not in self._warm or seconds <= 0:  # a coarse clock may not see a short pass
            self._warm.add(num_queries)
            return False
        shape = self._shapes.get((num_rows, num_queries), _Shape(1.0, 0.0, self._num_passes))
        features = np.array([1.0, num_rows, num_queries])
        assumed = float(features @ self._assumed)
        if not self._weight:
            self._plane = self._assumed * (seconds / assumed)
        line = self._line(num_rows, num_queries) if self._weight else seconds
        ratio = self._believed(seconds / line)
        count = min(self._faded(shape) + 1, _AVERAGED)
        ratio_here = shape.ratio + (ratio - shape.ratio) / count
        self._shapes[num_rows, num_queries] = _Shape(ratio_here, count, self._num_passes)
        relative = features / line
        self._squares = _REMEMBERED * self._squares + np.outer(relative, relative)
        self._products = _REMEMBERED * self._products + relative * ratio
        self._level = _REMEMBERED * self._level + ratio * line / assumed
        self._weight = _REMEMBERED * self._weight + 1
        self._num_taken += 1
        if self._num_taken < _OFTEN or self._num_taken % _OFTEN == 0:
            self._costs = None
        return True

    def predict(self, num_rows: int, num_queries: int) -> float:
        line = self._line(num_rows, num_queries)
        shape = self._shapes.get((num_rows, num_queries))
        if shape is None:
            return line
        count = self._faded(shape)
        return line * (1 + (shape.ratio - 1) * count / (count + _TRUST))

    def is_vague(self, num_rows: int, num_queries: int) -> bool:
        """Whether what is known of this time comes from few passes, long ago, or from none like it."""
        if self._num_passes < _FEW_PASSES or not self._weight:
            return False
        features = np.array([1.0, num_rows, num_queries]) / self._line(num_rows, num_queries)
        return float(features @ np.linalg.solve(self._known, features)) > 1 / _VAGUE

    def _believed(self, ratio: float) -> float:
        """A time over the line's, an outlier only if it is the second in a row."""
        believed = min(ratio, max(_OUTLIER, self._ratio_before))
        self._ratio_before = ratio
        return believed

    def _faded(self, shape: _Shape) -> float:
        return shape.times * _REMEMBERED ** (self._num_passes - shape.last)

    def _line(self, num_rows: int, num_queries: int) -> float:
        if self._costs is None:
            self._plane = self._fit()
            self._costs = self._plane.tolist()
        return self._costs[0] + self._costs[1] * num_rows + self._costs[2] * num_queries

    def _fit(self) -> np.ndarray:
        """Costs [3], none below 0: (fixed, of a row, of a query)."""
        if not self._weight:
            return self._assumed
        assumed = self._assumed * (self._level / self._weight)
        relative = self._typical / (self._typical @ self._plane)[:, None]
        relative *= (_ASSUMED_WEIGHT / len(relative)) ** 0.5
        squares = self._known = self._squares + relative.T @ relative
        products = self._products + relative.T @ (relative @ assumed)
        used, plane = [0, 1, 2], np.zeros(3)
        while True:
            costs = np.linalg.solve(squares[np.ix_(used, used)], products[used])
            if costs.min() >= 0:
                plane[used] = costs
                return plane
            used = [i for i, cost in zip(used, costs, strict=True) if cost >= 0]


class TokenRate:
    """Tokens a second that decoding yields of late, by the size of the batch (its bit length)."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[float, float, int]] = {}

    def record(self, num_rows: int, num_tokens: int, seconds: float) -> None:
        size = num_rows.bit_length()
        tokens, spent, count = self._sums.get(size, (0.0, 0.0, 0))
        self._sums[size] = _MEMORY * tokens + num_tokens, _MEMORY * spent + seconds, count + 1

    def get(self, num_rows: int) -> float | None:
        """None until a few passes were seen."""
        tokens, spent, count = self._sums.get(num_rows.bit_length(), (0.0, 0.0, 0))
        return tokens / spent if count >= _FEW_PASSES and spent > 0 else None


class MeasuredBudget:
    """Verifies what yields more tokens than the same time yields elsewhere, so a loaded engine falls back to plain
    decoding by itself. Where drafts have cost more than they brought, making them and verifying them together, none
    are asked for during a while, which is longer every time (`can_rest=False`: never).

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
        can_rest: bool = True,
    ) -> None:
        self.times = PassTimes(doubling)
        self.rates = TokenRate()
        # By the size of the batch (its bit length): what pays for one row need not pay for many.
        self.ledgers: defaultdict[int, Ledger] = defaultdict(Ledger)
        self._can_rest = can_rest
        self._bucket = bucket
        self._flat_bucket = flat_bucket
        self._max_nodes = max_nodes
        self._max_queries = max_queries
        self._widths = sorted({self._bucket(q) for q in range(1, max_nodes + 2)})

    def limit(self, num_rows: int) -> int:
        if self.ledgers[num_rows.bit_length()].resting:
            return 0
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
        """The nodes of the pair (nodes, queries of the pass) that is worth most, or hardly less with more nodes."""
        timed = [(nodes, self.times.predict(num_rows, size)) for nodes, size in options]
        rate = self.rates.get(num_rows)
        if rate is None:
            rate = max((num_rows + gains[nodes]) / seconds for nodes, seconds in timed)
        # Plain decoding's rate can always be had, whatever drafts have promised and not kept.
        rate = max(rate, num_rows / timed[0][1])
        worth = [gains[nodes] - rate * seconds for nodes, seconds in timed]
        best = max(range(len(timed)), key=worth.__getitem__)
        # Whether drafts pay at all hangs on what plain decoding takes: if need be, it is tried.
        if best == 0 or self.times.is_vague(num_rows, options[0][1]):
            return 0
        least = max(worth[best] - _SLACK * rate * timed[best][1], worth[0])
        enough = [option for option, own in zip(timed, worth, strict=True) if own >= least]
        return max(enough, key=lambda option: gains[option[0]] - 0.5 * rate * option[1])[0]

    def record(
        self, num_rows: int, num_queries: int, num_tokens: int, seconds: float, drafting: float = 0.0
    ) -> None:
        if not self.times.record(num_rows, num_queries, seconds):
            return
        self.rates.record(num_rows, num_tokens, seconds + drafting)
        if self._can_rest:
            # A machine that stood still for a moment tells nothing about drafts.
            usual = self.times.predict(num_rows, num_queries)
            self._judge(num_rows, num_tokens - num_rows, min(seconds, _OUTLIER * usual) + drafting)

    def _judge(self, num_rows: int, num_accepted: int, seconds: float) -> None:
        """Hold against drafting what the step took longer than a plain one."""
        ledger = self.ledgers[num_rows.bit_length()]
        if ledger.resting:
            ledger.rest(num_rows)
            return
        plain = self.times.predict(num_rows, self._plain_queries(num_rows))
        ledger.record(num_accepted, num_accepted, num_rows)
        ledger.seconds += seconds - plain
        ledger.judge(plain / num_rows)

    def _plain_queries(self, num_rows: int) -> int:
        """Queries of a pass without drafts."""
        flat = self._flat_bucket if num_rows > 1 else None
        return num_rows * self._bucket(1) if flat is None else flat(num_rows)


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
