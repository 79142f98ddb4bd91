"""How to time rivals fairly: the same texts, warmed up, taking turns, medians over the rounds.

Knows callables that correct texts and say how long it took; not what runs inside them, nor in which process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

# Turns of the settings to choose from: a noisy second must not decide.
MIN_TRIALS, MAX_TRIALS = 4, 15


@dataclass(frozen=True)
class Output:
    """One corrected text: the tokens written (special ones left out), their text, and the passes it took."""

    token_ids: tuple[int, ...]
    text: str
    passes: int | None = None


@dataclass(frozen=True)
class Run:
    """One turn over the texts: wall-clock seconds of the work alone, and by phase where the runtime tells."""

    seconds: float
    outputs: list[Output]
    phases: Mapping[str, float] = field(default_factory=dict)


# Texts in, outputs out, in order; the number is how many rows may be worked on at once (1: one call a text).
Runner = Callable[[Sequence[str], int], list[Output]]
# The same, timed by whoever runs it. Raises RunFailed.
Racer = Callable[[Sequence[str], int], Run]


class RunFailed(RuntimeError):
    """A contestant could not load or could not correct these texts; the message is the reason."""


@dataclass(frozen=True)
class Failure:
    """A contestant that could not run here, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Entrant:
    """A contestant at the setting chosen for it, and the rounds it is to run."""

    name: str
    setting: str
    racer: Racer
    rounds: int


@dataclass
class Timing:
    """What one contestant did: every round over all the texts."""

    name: str
    setting: str
    runs: list[Run] = field(default_factory=list)

    @property
    def median(self) -> Run:
        """The round that took the median time; the slower of the two in the middle."""
        return sorted(self.runs, key=lambda run: run.seconds)[len(self.runs) // 2]

    @property
    def ms_per_text(self) -> float:
        """Median over the rounds, in milliseconds for one text."""
        seconds = statistics.median(run.seconds for run in self.runs)
        return 1000.0 * seconds / len(self.runs[0].outputs)


@dataclass(frozen=True)
class Choice:
    """The quickest setting in the trial, and the seconds that one text took with it."""

    setting: str
    seconds_per_text: float


def choose(racers: Mapping[str, Racer], texts: Sequence[str], rows: int, patience: float = 2.0) -> Choice:
    """Return the quickest of the settings, by the median of its runs over the texts after one to warm up.

    They take turns, each turn beginning with another one, until `patience` seconds a setting are spent or MAX_TRIALS
    turns are over; or, from MIN_TRIALS on, until all runs of one are quicker than all of the others'. One that is alone
    runs once more, for its cost. A setting that fails is left out. Raises RunFailed, with the first reason, if all do.
    """
    trials: dict[str, list[float]] = {}
    reason: RunFailed | None = None
    for label, racer in racers.items():
        try:
            racer(texts, rows)
        except RunFailed as failed:
            reason = reason or failed
        else:
            trials[label] = []
    if not trials:
        raise reason or RunFailed("no settings to choose from")
    labels = list(trials)
    for turn in range(MAX_TRIALS if len(trials) > 1 else 1):
        if (turn >= MIN_TRIALS and _is_clear(trials)) or _spent(trials) >= patience * len(trials):
            break
        for label in labels[turn % len(labels) :] + labels[: turn % len(labels)]:
            trials[label].append(racers[label](texts, rows).seconds)
    medians = {label: statistics.median(seconds) for label, seconds in trials.items()}
    setting = min(medians, key=lambda label: medians[label])
    return Choice(setting, medians[setting] / len(texts))


def _spent(trials: Mapping[str, Sequence[float]]) -> float:
    return sum(map(sum, trials.values()))


def _is_clear(trials: Mapping[str, Sequence[float]]) -> bool:
    """Whether one setting was quicker in each of its runs than the others in any."""
    best, *others = sorted(trials.values(), key=statistics.median)
    return all(max(best) < min(other) for other in others)


def race(
    entrants: Sequence[Entrant],
    texts: Sequence[str],
    rows: int,
    *,
    min_rounds: int = 1,
    deadline: float = float("inf"),
    on_progress: Callable[[str], None] = lambda _: None,
) -> tuple[list[Timing], list[Failure]]:
    """Time every entrant over the texts, one after the other in each round, after one run to warm up.

    Taking turns spreads a slow minute of the machine over all of them; every round starts with another one.
    From `min_rounds` on, no round starts that would not be done at `deadline` (`time.monotonic()`). One that
    fails is reported, not dropped.
    """
    racing = {entrant.name: entrant for entrant in entrants}
    timings = {entrant.name: Timing(entrant.name, entrant.setting) for entrant in entrants}
    failures: list[Failure] = []
    last = 0.0
    for number in range(max((entrant.rounds for entrant in entrants), default=0) + 1):
        started = time.monotonic()
        if number > min_rounds and started + last > deadline:
            break
        on_progress(f"round {number}" if number else "warm-up")
        waiting = [entrant for entrant in racing.values() if number <= entrant.rounds]
        first = max(number - 1, 0) % max(len(waiting), 1)
        for entrant in waiting[first:] + waiting[:first]:
            try:
                run = entrant.racer(texts, rows)
            except RunFailed as failed:
                failures.append(Failure(entrant.name, str(failed)))
                del racing[entrant.name], timings[entrant.name]
                continue
            if number:
                timings[entrant.name].runs.append(run)
        last = time.monotonic() - started
    return list(timings.values()), failures
