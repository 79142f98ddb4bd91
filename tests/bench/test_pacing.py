"""What is measured fits into the time, cut where it costs least."""

from __future__ import annotations

import pytest

from apps.bench.pacing import MIN_SENTENCES, Pace, pace

# Two fast contestants and a slow one, seconds per text; with 5 rounds a sentence costs 6 * 0.12 = 0.72 s.
COSTS = {"jfleg single": {"a": 0.01, "b": 0.01, "slow": 0.1}}


def test_nothing_is_cut_where_there_is_time() -> None:
    assert pace(COSTS, 1000.0, 150, 5) == Pace(150, 5, 5, pytest.approx(108.0))
    assert pace(COSTS, float("inf"), 150, 5).sentences == 150


def test_slow_contestants_lose_rounds_first() -> None:
    chosen = pace(COSTS, 100.0, 150, 5)
    assert chosen == Pace(150, 5, 3, pytest.approx(150 * (6 * 0.02 + 4 * 0.1)))
    assert chosen.rounds_of("slow", COSTS["jfleg single"]) == 3
    assert chosen.rounds_of("a", COSTS["jfleg single"]) == 5


def test_then_there_are_fewer_sentences_and_then_fewer_rounds_for_all() -> None:
    assert pace(COSTS, 52.5, 150, 5) == Pace(100, 5, 3, pytest.approx(52.0))
    assert pace(COSTS, 24.1, 150, 5) == Pace(50, 3, 3, pytest.approx(24.0))


@pytest.mark.parametrize("seconds", [-5.0, 0.0, 0.1])
def test_three_rounds_of_a_few_sentences_are_measured_however_short_the_time(seconds: float) -> None:
    chosen = pace(COSTS, seconds, 150, 5)
    assert (chosen.sentences, chosen.rounds, chosen.slow_rounds) == (MIN_SENTENCES, 3, 3)


def test_no_more_is_measured_than_was_asked_for() -> None:
    assert pace(COSTS, 1000.0, 3, 2) == Pace(3, 2, 2, pytest.approx(3 * 3 * 0.12))
    assert pace(COSTS, 0.0, 3, 2).rounds == 2
