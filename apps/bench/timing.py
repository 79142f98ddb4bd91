"""How to time rivals fairly: the same texts, warmed up, taking turns, medians over the rounds.

Knows callables that correct texts and the clock; not what runs inside them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

MIN_ROUNDS = 5


@dataclass(frozen=True)
class Output:
    """One corrected text: the tokens written (special ones left out), their text, and the passes it took."""

    token_ids: tuple[int, ...]
    text: str
    passes: int | None = None


# Texts in, outputs out, in order; the number is how many rows may be worked on at once (1: one call a text).
Runner = Callable[[Sequence[str], int], list[Output]]


@dataclass(frozen=True)
class Contestant:
    """One row of the table: a name and the settings among which the fastest is used, each by its label."""

    name: str
    variants: Mapping[str, Runner]


@dataclass
class Timing:
    """What one contestant did: seconds of every round over all the texts, and the last round's outputs."""

    name: str
    setting: str
    outputs: list[Output]
    seconds: list[float] = field(default_factory=list)

    @property
    def ms_per_text(self) -> float:
        """Median over the rounds, in milliseconds for one text."""
        return 1000.0 * statistics.median(self.seconds) / len(self.outputs)


@dataclass(frozen=True)
class Failure:
    """A contestant that could not run here, and why."""

    name: str
    reason: str


def seconds_of(runner: Runner, texts: Sequence[str], rows: int) -> float:
    """Wall-clock seconds of one run over all texts."""
    start = time.perf_counter()
    runner(texts, rows)
    return time.perf_counter() - start


def fastest_variant(contestant: Contestant, texts: Sequence[str], rows: int) -> str:
    """Return the label of the quickest variant: best of two runs over the texts, after one to warm up."""
    if len(contestant.variants) == 1:
        return next(iter(contestant.variants))
    best: dict[str, float] = {}
    for label, runner in contestant.variants.items():
        runner(texts, rows)
        best[label] = min(seconds_of(runner, texts, rows) for _ in range(2))
    return min(best, key=lambda label: best[label])


def _enter(contestant: Contestant, texts: Sequence[str], rows: int, trial: int) -> Timing | Failure:
    """Choose the setting on the first texts, then run all of them once to warm up."""
    try:
        setting = fastest_variant(contestant, texts[:trial], rows)
        outputs = contestant.variants[setting](texts, rows)
    except (ImportError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        return Failure(contestant.name, f"{type(error).__name__}: {error}".split("\n")[0])
    return Timing(contestant.name, setting, outputs)


def race(
    contestants: Sequence[Contestant],
    texts: Sequence[str],
    rows: int,
    rounds: int,
    trial: int = 32,
    on_progress: Callable[[str], None] = lambda _: None,
) -> tuple[list[Timing], list[Failure]]:
    """Time every contestant over the texts, one after the other in each round.

    Taking turns spreads a slow minute of the machine over all of them; every round starts with another one.
    `trial` texts are spent on choosing each one's setting. One that raises is reported, not dropped.
    """
    timings: list[Timing] = []
    failures: list[Failure] = []
    by_name = {contestant.name: contestant for contestant in contestants}
    for contestant in contestants:
        on_progress(f"warm-up: {contestant.name}")
        entry = _enter(contestant, texts, rows, trial)
        if isinstance(entry, Timing):
            timings.append(entry)
        else:
            failures.append(entry)
    for turn in range(rounds):
        on_progress(f"round {turn + 1} of {rounds}")
        first = turn % max(len(timings), 1)
        for timing in timings[first:] + timings[:first]:
            runner = by_name[timing.name].variants[timing.setting]
            start = time.perf_counter()
            timing.outputs = runner(texts, rows)
            timing.seconds.append(time.perf_counter() - start)
    return timings, failures
