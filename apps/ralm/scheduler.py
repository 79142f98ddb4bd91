"""How many retrievals to guess before one verification covers them: the optimal speculation stride scheduler, OS³.

Knows latencies and hit rates. Does not know retrievers or models. Several threads may share one: what they record they
append, and lists are copied before they are looked at. After RaLMSpec (arXiv 2401.14021, section 4 and
appendix A.2), with latencies as `latencies` fits them. Letters: a seconds of a step, b of a verification, g hit rate,
s steps per verification.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from .config import SpeculationConfig
from .latencies import RECENT, Latencies, LatencyFit

#: Guessing must promise this much over plain retrieval, for what the model of it leaves out: threads, lookups.
_WORTHWHILE = 1.05
#: Guesses that a hit rate is estimated from, at least.
_ENOUGH = 16
#: A stride this much below the best one, of more steps than a verification takes, lies past it: longer ones are worse.
_PAST = 0.9
#: Verifications after which guessing is compared with what plain retrieval took, and those that it then sits out.
_JUDGED = 6
_FIRST_PAUSE, _LONGEST_PAUSE = 8, 128


class Plan(NamedTuple):
    """`steps` guesses per verification; `asynchronous`: go on writing while it runs."""

    steps: int
    asynchronous: bool


class HitRate:
    """g: the probability that a guess is right, estimated over the last verifications, as many more as it takes to
    have `_ENOUGH` guesses: with one each, five say nothing (the paper takes them all the same)."""

    def __init__(self, config: SpeculationConfig) -> None:
        self._enough = 0 if config.as_published else _ENOUGH
        self._recent: deque[tuple[int, int]] = deque(maxlen=max(config.window, self._enough))
        self._config = config

    def record(self, matched: int, missed: int) -> None:
        """A verification found `matched` guesses right before the first wrong one of each of `missed` requests."""
        self._recent.append((matched, missed))

    @property
    def value(self) -> float:
        hits, misses = 0.0, 0
        for number, (matched, missed) in enumerate(reversed(list(self._recent))):
            if number >= self._config.window and hits + misses >= self._enough:
                break
            hits, misses = hits + matched, misses + missed
        hits += self._config.prior_hits
        return min(hits / (hits + misses) if hits + misses else 0.0, self._config.max_hit_rate)


class Pace:
    """Seconds that a settled retrieval really took, plainly and with guesses.

    What no formula knows of (threads that want the same cores, say) shows here: where guessing was not faster than
    plain retrieval it pauses, for longer every time in a row.
    """

    def __init__(self) -> None:
        self._plain: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self._guessed: deque[tuple[float, int]] = deque(maxlen=_JUDGED)
        self._pause, self._left = _FIRST_PAUSE, 0

    @property
    def is_paused(self) -> bool:
        return self._left > 0

    def record_plain(self, seconds: float, retrievals: int) -> None:
        self._plain.append((seconds, retrievals))
        self._left = max(0, self._left - 1)

    def record_guessed(self, seconds: float, retrievals: int, plain: float) -> None:
        """`plain` seconds a retrieval are assumed where too few were measured."""
        self._guessed.append((seconds, retrievals))
        guessed, measured = list(self._guessed), list(self._plain)
        if len(guessed) < _JUDGED:
            return
        if len(measured) >= _JUDGED:
            plain = _rate(measured)
        if _rate(guessed) > plain:
            self._left, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
            self._guessed.clear()
        else:
            self._pause = max(_FIRST_PAUSE, self._pause // 2)


def _rate(taken: list[tuple[float, int]]) -> float:
    return sum(seconds for seconds, _ in taken) / max(1, sum(count for _, count in taken))


class Scheduler:
    """Chooses the plan of every verification, from what the earlier ones showed."""

    def __init__(self, config: SpeculationConfig) -> None:
        self.fit = LatencyFit()
        self.hit_rate = HitRate(config)
        self.pace = Pace()
        self._config = config

    def plan(self, width: int = 1) -> Plan:
        """The plan of the next verification, for `width` requests at once."""
        config = self._config
        if not config.scheduler:
            return Plan(config.steps, config.asynchronous)
        if not self.fit.is_ready or self.is_hopeless(width):
            return Plan(1, False)
        return best_plan(self.fit.latencies(width), self.hit_rate.value, config)

    def is_hopeless(self, width: int = 1) -> bool:
        """Whether nothing is worth guessing: even right guesses, verified while others are made, would not pay for
        their lookups, or guessing pauses."""
        config = self._config
        if not config.scheduler or config.as_published or not self.fit.is_ready:
            return False
        known = self.fit.latencies(width)
        at_best = known.overlapped(known.step, known.per_query * width)
        return self.pace.is_paused or known.plain < _WORTHWHILE * at_best

    def record(self, plan: Plan, seconds: float, retrievals: int, width: int = 1) -> None:
        """What one verification and all that was written for it took."""
        if not self._config.scheduler or self._config.as_published:
            return
        if plan == Plan(1, False):
            self.pace.record_plain(seconds, retrievals)
        elif self.fit.is_ready:
            self.pace.record_guessed(seconds, retrievals, self.fit.latencies(width).plain / width)


def best_plan(latencies: Latencies, hit_rate: float, config: SpeculationConfig) -> Plan:
    """The plan of the highest expected rate; of equals the shortest."""
    if config.as_published:
        plans = [Plan(steps, config.asynchronous) for steps in range(1, config.max_steps + 1)]
        return max(plans, key=lambda plan: published_rate(plan, latencies, hit_rate))
    plain = best = Plan(1, False)
    plain_rate = best_rate = expected_rate(plain, latencies, hit_rate, config.max_ahead)
    # Threads that wait for each other's cores also lose what no clock of theirs shows, such as caches.
    doubt = 1 + max(latencies.step_lost, latencies.search_lost)
    for way in (False, True) if config.asynchronous else (False,):
        for steps in range(1, config.max_steps + 1):
            plan = Plan(steps, way)
            rate = expected_rate(plan, latencies, hit_rate, config.max_ahead) / (doubt if way else 1)
            if rate > best_rate:
                best, best_rate = plan, rate
            elif rate < _PAST * best_rate and steps > latencies.verification(1) / latencies.step:
                break
    return best if best_rate > _WORTHWHILE * plain_rate else plain


def expected_documents(steps: int, hit_rate: float) -> float:
    """(1 - g^s) / (1 - g): retrievals that one verification settles, the corrected one included."""
    return (1 - hit_rate**steps) / (1 - hit_rate)


def expected_rate(plan: Plan, latencies: Latencies, hit_rate: float, max_ahead: int) -> float:
    """Retrievals settled per second of our loop.

    Waiting: s - 1 steps are written on guesses, and one after the verification, on its answer, whatever it says;
    s = 1 is plain retrieval, without a lookup. Going on: e steps are written while a verification runs. After a
    miss they are lost, and s steps come before the next verification; else they count, and it covers max(s, e)
    guesses. What both want the same cores for takes longer.
    """
    a, b, s = latencies.step, latencies.verification(plan.steps), plan.steps
    if plan == Plan(1, False):
        return 1 / latencies.plain
    if not plan.asynchronous:
        return expected_documents(s, hit_rate) / (s * a + b)
    ahead = max(1, min(max_ahead, latencies.beside(b)))
    longer = max(s, ahead)
    # How often a verification follows a miss, and how often it follows one where all guesses were right.
    after_miss, after_hits = 1 - hit_rate**longer, hit_rate**s
    documents = after_miss * expected_documents(s, hit_rate) + after_hits * expected_documents(
        longer, hit_rate
    )
    seconds = after_miss * (s * a + latencies.overlapped(ahead * a, b))
    seconds += after_hits * (
        (longer - ahead) * a + latencies.overlapped(ahead * a, latencies.verification(longer))
    )
    return documents / seconds


def published_rate(plan: Plan, latencies: Latencies, hit_rate: float) -> float:
    """The paper's objective: (1-g^s)/(1-g) documents in sa + b seconds, or if asynchronous in
    g^s((s-1)a + max(a,b)) + (1-g^s)(sa + b)."""
    a, b, s = latencies.step, latencies.verification(plan.steps), plan.steps
    documents = expected_documents(s, hit_rate)
    if not plan.asynchronous:
        return documents / (s * a + b)
    all_right = hit_rate**s
    return documents / (all_right * ((s - 1) * a + max(a, b)) + (1 - all_right) * (s * a + b))
