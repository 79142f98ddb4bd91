"""How long steps and verifications take, fitted while they are being done.

Knows seconds. Does not know who spends them. A verification of n queries takes b(n) = b0 + b1 * n: on few cores a
batch costs more than one query. What runs beside each other may want the same cores: how much of the time is lost
to that is measured too, and latencies are those of each alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, median
from typing import Self

#: Measurements that a latency is estimated from: enough to see through noise, few enough to follow a change.
RECENT = 16
#: Of a second beside each other more than this is not lost to contention, whatever was measured.
_MOST_LOST = 0.75
#: Verifications alone, after which it is forgotten and tried anew: other programs come and go.
_REMEMBERED = 64


@dataclass
class Spent:
    """`seconds` of a verification, and those of them in which its thread computed."""

    seconds: float = 0.0
    busy: float = 0.0

    @classmethod
    @contextmanager
    def measured(cls) -> Iterator[Self]:
        """What a block takes; filled in at its end."""
        spent, started, busy = cls(), time.perf_counter(), time.thread_time()
        yield spent
        spent.seconds, spent.busy = time.perf_counter() - started, time.thread_time() - busy


@dataclass(frozen=True)
class Latencies:
    """Seconds: `step` (a), `base` (b0) and `per_query` (b1) of a verification; `width` queries per step. `lookup` is
    the part of a step that plain retrieval does without. `contention` is the share of a second that is lost while
    steps are written beside a verification: 0 where each has cores of its own, 0.5 where they take turns at one."""

    step: float
    base: float
    per_query: float = 0.0
    width: float = 1.0
    lookup: float = 0.0
    contention: float = 0.0

    def verification(self, steps: int) -> float:
        """b(s)."""
        return self.base + self.per_query * self.width * steps

    def overlapped(self, steps: float, verification: float) -> float:
        """Seconds of steps and a verification that run beside each other, from those that each takes alone."""
        slowdown = 1 / (1 - self.contention)
        return max(steps, verification) + (slowdown - 1) * min(steps, verification)

    @property
    def plain(self) -> float:
        """A step and its retrieval without speculation."""
        return self.step - self.lookup + self.verification(1)


class LatencyFit:
    """Online estimates of a, b0 and b1 from the most recent measurements."""

    def __init__(self) -> None:
        self._steps: deque[float] = deque(maxlen=RECENT)
        self._lookups: deque[float] = deque(maxlen=RECENT)
        self._verifications: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._busy: deque[float] = deque(maxlen=RECENT)
        self._lost: deque[float] = deque(maxlen=RECENT // 2)
        self._num_alone = 0

    @property
    def is_ready(self) -> bool:
        return bool(self._steps) and bool(self._verifications)

    @property
    def contention(self) -> float:
        """As in `Latencies`; 0 where it is not known, or not known any more."""
        return median(list(self._lost) or [0.0])

    def record_step(self, seconds: float, is_beside: bool = False) -> None:
        """A step, but for looking up its guess; or one that was written beside a verification."""
        self._steps.append(seconds * (1 - self.contention) if is_beside else seconds)

    def record_lookup(self, seconds: float) -> None:
        """Looking up the guess of a step."""
        self._lookups.append(seconds)

    def record_alone(self, num_queries: int, spent: Spent) -> None:
        """A verification for which nothing else was kept waiting."""
        self._verifications.append((num_queries, spent.seconds))
        self._busy.append(min(1.0, spent.busy / max(spent.seconds, 1e-9)))
        self._num_alone += 1
        if self._num_alone > _REMEMBERED:
            self._lost.clear()

    def record_beside(self, num_queries: int, spent: Spent, writing: float) -> None:
        """A verification during which steps were written, for `writing` seconds.

        Alone its thread would have computed a known share of its seconds; what is missing of that it waited for a
        core. The two take turns then, so that writing waited as long.
        """
        wanted = median(list(self._busy) or [0.0]) * spent.seconds
        overlap = max(min(writing, spent.seconds), 1e-9)
        lost = min(max(0.0, wanted - spent.busy), _MOST_LOST * overlap)
        self._verifications.append((num_queries, spent.seconds - lost))
        self._lost.append(lost / overlap)
        self._num_alone = 0

    def latencies(self, width: float = 1.0) -> Latencies:
        """The current fit; needs one measurement of each."""
        base, per_query = self._line()
        lookup = median(list(self._lookups) or [0.0])
        step = max(median(list(self._steps)) + lookup, 1e-9)
        return Latencies(step, base, per_query, width, lookup, self.contention)

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
