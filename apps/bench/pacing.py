"""How many sentences and rounds fit into the time: as few cuts as will do, the cheapest first.

Knows seconds per text, measured while the settings were chosen. Does not know what is measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

MIN_ROUNDS = 3
ENOUGH_SENTENCES = 64  # two full batches; below that, rounds are given up before sentences
MIN_SENTENCES = 4
SLOW = 2.0  # times the median contestant of the same set and mode

# Seconds per text by contestant, for each set and mode.
Costs = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Pace:
    """Sentences of each set, rounds, the rounds of the slow ones, and the seconds that this will take."""

    sentences: int
    rounds: int
    slow_rounds: int
    seconds: float

    def rounds_of(self, name: str, costs: Mapping[str, float]) -> int:
        """The rounds of one contestant where the costs are these."""
        return self.slow_rounds if costs[name] > SLOW * statistics.median(costs.values()) else self.rounds


def pace(costs: Costs, seconds: float, sentences: int, rounds: int) -> Pace:
    """Return the most that fits into `seconds`, at most `sentences` and `rounds`.

    First the slow contestants run fewer rounds, then there are fewer sentences, then fewer rounds for all, then still
    fewer sentences; never under MIN_ROUNDS (or `rounds`) and MIN_SENTENCES, even if that takes longer.
    """
    fewest = min(rounds, MIN_ROUNDS)
    enough = min(sentences, ENOUGH_SENTENCES)
    for most, slow, wanted in (
        (rounds, rounds, sentences),
        (rounds, fewest, enough),
        (fewest, fewest, min(sentences, MIN_SENTENCES)),
    ):
        one = _seconds_per_sentence(costs, most, slow)
        fitting = int(min(sentences, seconds / one)) if one else sentences
        if fitting >= wanted:
            break
    kept = max(fitting, wanted)
    return Pace(kept, most, slow, kept * one)


def _seconds_per_sentence(costs: Costs, rounds: int, slow_rounds: int) -> float:
    """What one sentence in each set and mode costs over all rounds, the one to warm up among them."""
    asked = Pace(1, rounds, slow_rounds, 0.0)
    return sum(
        cost * (1 + asked.rounds_of(name, by_name))
        for by_name in costs.values()
        for name, cost in by_name.items()
    )
