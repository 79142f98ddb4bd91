"""How long steps and verifications take, fitted while they are being done.

Knows seconds. Does not know who spends them. A verification of n queries takes b(n) = b0 + b1 * n: on few cores a
batch costs more than one query. What runs beside each other may want the same cores: how long a thread waits for one
is measured too, and latencies are those of each alone.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, median
from typing import Self

#: Measurements that a latency is estimated from: enough to see through noise, few enough to follow a change.
RECENT = 16
#: More of a second beside each other is not waited for a core, whatever was measured.
_MOST_LOST = 0.75
#: Verifications alone, after which it is forgotten and tried anew: other programs come and go.
_REMEMBERED = 64


@dataclass
class Spent:
    """Seconds, and those of them in which the thread computed."""

    seconds: float = 0.0
    busy: float = 0.0

    @classmethod
    @contextmanager
    def measured(cls) -> Iterator[Self]:
        """What a block takes; filled in at its end."""
        spent, started, busy = cls(), time.perf_counter(), time.thread_time()
        yield spent
        spent.seconds, spent.busy = time.perf_counter() - started, time.thread_time() - busy

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.seconds + other.seconds, self.busy + other.busy)

    def less(self, seconds: float) -> Spent:
        """Without seconds in which it did something else, computing as much of them as of the rest."""
        return Spent(self.seconds - seconds, self.busy * (1 - seconds / max(self.seconds, 1e-9)))

    def over(self, count: int) -> Spent:
        """The share of one of `count` steps."""
        return Spent(self.seconds / count, self.busy / count)


@dataclass(frozen=True)
class Latencies:
    """Seconds: `step` (a), `base` (b0) and `per_query` (b1) of a verification; `width` queries per step. `lookup` is
    the part of a step that plain retrieval does without. `step_lost` and `search_lost` are the shares of their time
    that steps and a verification beside each other wait for a core: 0 where each has its own, 0.5 where they take
    turns at one."""

    step: float
    base: float
    per_query: float = 0.0
    width: float = 1.0
    lookup: float = 0.0
    step_lost: float = 0.0
    search_lost: float = 0.0

    def verification(self, steps: int) -> float:
        """b(s)."""
        return self.base + self.per_query * self.width * steps

    def beside(self, verification: float) -> int:
        """Steps that are begun while a verification runs which alone takes so many seconds."""
        slowed = (1 - self.step_lost) / (1 - self.search_lost)
        return math.ceil(verification / self.step * slowed)

    def overlapped(self, steps: float, verification: float) -> float:
        """Seconds of steps and a verification that begin at once, from those that each takes alone."""
        writing, searching = 1 - self.step_lost, 1 - self.search_lost
        both = min(steps / writing, verification / searching)
        return both + max(steps - both * writing, verification - both * searching)

    @property
    def plain(self) -> float:
        """A step and its retrieval without speculation."""
        return self.step - self.lookup + self.verification(1)


class Cores:
    """How much of its time a thread computes alone, and how much less beside another one."""

    def __init__(self) -> None:
        self._busy: deque[float] = deque(maxlen=RECENT)
        self._lost: deque[float] = deque(maxlen=RECENT)

    @property
    def share(self) -> float:
        """The share of its time that it computes when it is alone."""
        return median(list(self._busy) or [0.0])

    @property
    def lost(self) -> float:
        """The share of the time beside another thread that is spent waiting for a core; 0 where none was measured."""
        return median(list(self._lost) or [0.0])

    def alone(self, spent: Spent) -> None:
        self._busy.append(min(1.0, spent.busy / max(spent.seconds, 1e-9)))

    def beside(self, spent: Spent, overlap: float) -> float:
        """Seconds that it would have taken alone; the other thread computed for `overlap` seconds of it."""
        wanted = self.share * spent.seconds
        overlap = max(min(overlap, spent.seconds), 1e-9)
        lost = min(max(0.0, wanted - spent.busy), _MOST_LOST * overlap)
        self._lost.append(lost / overlap)
        return spent.seconds - lost

    def forget(self) -> None:
        """What another thread costs is to be found out anew."""
        self._lost.clear()


class LatencyFit:
    """Online estimates of a, b0 and b1 from the most recent measurements."""

    def __init__(self) -> None:
        self._steps: deque[float] = deque(maxlen=RECENT)
        self._lookups: deque[float] = deque(maxlen=RECENT)
        self._verifications: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._writing, self._searching = Cores(), Cores()
        self._num_alone = 0

    @property
    def is_ready(self) -> bool:
        return bool(self._steps) and bool(self._verifications)

    def record_step(self, spent: Spent, is_beside: bool = False) -> None:
        """A step, but for looking up its guess; or one that was written beside a verification."""
        if is_beside:
            self._steps.append(self._writing.beside(spent, spent.seconds))
        else:
            self._writing.alone(spent)
            self._steps.append(spent.seconds)

    def record_lookup(self, seconds: float) -> None:
        """Looking up the guess of a step."""
        self._lookups.append(seconds)

    def record_alone(self, num_queries: int, spent: Spent) -> None:
        """A verification for which everything else waited."""
        self._verifications.append((num_queries, spent.seconds))
        self._searching.alone(spent)
        self._num_alone += 1
        if self._num_alone > _REMEMBERED:
            self._searching.forget()
            self._writing.forget()

    def record_beside(self, num_queries: int, spent: Spent, writing: float) -> None:
        """A verification during which steps were written, for `writing` seconds."""
        self._verifications.append((num_queries, self._searching.beside(spent, writing)))
        self._num_alone = 0

    def latencies(self, width: float = 1.0) -> Latencies:
        """The current fit; needs one measurement of each."""
        base, per_query = self._line()
        lookup = median(list(self._lookups) or [0.0])
        step = max(typical(list(self._steps)) + lookup, 1e-9)
        search_lost = self._searching.lost
        # Steps cannot lose more than a verification takes; else it was other programs.
        step_lost = min(self._writing.lost, self._searching.share)
        return Latencies(step, base, per_query, width, lookup, step_lost, search_lost)

    def _line(self) -> tuple[float, float]:
        """Least squares with neither part negative."""
        measured = list(self._verifications)
        sizes = [float(size) for size, _ in measured]
        seconds = [taken for _, taken in measured]
        x, y = fmean(sizes), fmean(seconds)
        spread = sum((size - x) ** 2 for size in sizes)
        if spread == 0:
            return y, 0.0
        slope = sum((size - x) * (taken - y) for size, taken in zip(sizes, seconds, strict=True)) / spread
        if slope * x > y:  # through the origin: the base would be negative
            slope = sum(s * t for s, t in zip(sizes, seconds, strict=True)) / sum(s * s for s in sizes)
            return 0.0, slope
        return (y, 0.0) if slope < 0 else (y - slope * x, slope)


def typical(values: Sequence[float]) -> float:
    """Their mean without the highest and the lowest eighth: steps that read a new document count, a hiccup does not."""
    cut = math.ceil(len(values) / 8) if len(values) > 2 else 0
    return fmean(sorted(values)[cut : len(values) - cut])
