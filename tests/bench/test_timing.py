"""The race is fair: everyone runs every round, the fastest setting is chosen, nobody is dropped silently."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from apps.bench.timing import Entrant, Output, Racer, Run, RunFailed, Timing, choose, race

TEXTS = ["one", "two", "three"]


def racer(log: list[str], name: str, *seconds: float) -> Racer:
    """Claims these seconds, run by run, the last of them for all further runs."""
    left = list(seconds or (1.0,))

    def run(texts: Sequence[str], rows: int) -> Run:
        log.append(name)
        spent = left.pop(0) if len(left) > 1 else left[0]
        return Run(spent, [Output((len(text),), text, 1) for text in texts])

    return run


def broken(texts: Sequence[str], rows: int) -> Run:
    raise RunFailed("ValueError: batches are not supported")


def test_contestants_take_turns_and_each_round_starts_with_another() -> None:
    log: list[str] = []
    entrants = [Entrant(name, "only", racer(log, name), 3) for name in "abc"]
    timings, failures = race(entrants, TEXTS, rows=1)
    assert "".join(log) == "abc" + "abc" + "bca" + "cab"
    assert not failures
    assert [len(timing.runs) for timing in timings] == [3, 3, 3]


def test_a_slow_contestant_may_run_fewer_rounds_than_the_others() -> None:
    log: list[str] = []
    entrants = [Entrant("a", "only", racer(log, "a"), 4), Entrant("slow", "only", racer(log, "s"), 2)]
    timings, _ = race(entrants, TEXTS, rows=1)
    assert "".join(log) == "as" + "as" + "sa" + "a" + "a"
    assert [len(timing.runs) for timing in timings] == [4, 2]


def test_no_round_starts_after_the_deadline_but_the_fewest_are_run() -> None:
    entrants = [Entrant("a", "only", racer([], "a"), 9)]
    timings, _ = race(entrants, TEXTS, rows=1, min_rounds=3, deadline=time.monotonic())
    assert len(timings[0].runs) == 3


def test_the_fastest_setting_is_chosen_and_its_cost_is_known() -> None:
    choice = choose({"slow": racer([], "slow", 0.6), "fast": racer([], "fast", 0.3)}, TEXTS, rows=1)
    assert choice.setting == "fast"
    assert choice.seconds_per_text == pytest.approx(0.1)


def test_the_warm_up_run_does_not_count_in_the_choice() -> None:
    settings = {"cold": racer([], "cold", 9.0, 0.1), "warm": racer([], "warm", 0.2)}
    assert choose(settings, TEXTS, rows=1).setting == "cold"


def test_one_lucky_or_unlucky_run_does_not_decide() -> None:
    settings = {
        "lucky": racer([], "lucky", 9.0, 0.1, 0.4, 0.4, 0.4, 0.4),
        "unlucky": racer([], "unlucky", 9.0, 0.9, 0.3, 0.3, 0.3, 0.3),
    }
    assert choose(settings, TEXTS, rows=1).setting == "unlucky"


def test_settings_take_turns_that_begin_with_another_one_until_it_is_clear() -> None:
    log: list[str] = []
    choose({"a": racer(log, "a", 0.5), "b": racer(log, "b", 0.4)}, TEXTS, rows=1, patience=100.0)
    assert "".join(log) == "ab" + "abbaabba"


def test_a_setting_without_rivals_is_not_tried_again_and_again() -> None:
    log: list[str] = []
    assert choose({"a": racer(log, "a", 9.0, 0.3)}, TEXTS, rows=1).seconds_per_text == pytest.approx(0.1)
    assert log == ["a", "a"]


def test_settings_that_are_alike_are_tried_until_the_patience_is_spent() -> None:
    log: list[str] = []
    choose({"a": racer(log, "a", 0.5), "b": racer(log, "b", 0.5)}, TEXTS, rows=1, patience=3.0)
    assert len(log) == 2 + 2 * 6


def test_a_setting_that_fails_is_left_out_and_all_failing_is_told() -> None:
    assert choose({"bad": broken, "good": racer([], "good")}, TEXTS, rows=1).setting == "good"
    with pytest.raises(RunFailed, match="batches are not supported"):
        choose({"bad": broken}, TEXTS, rows=1)


def test_a_contestant_that_cannot_run_is_reported_with_its_reason() -> None:
    entrants = [Entrant("bad", "only", broken, 1), Entrant("good", "only", racer([], "good"), 1)]
    timings, failures = race(entrants, TEXTS, rows=2)
    assert [timing.name for timing in timings] == ["good"]
    assert [(f.name, f.reason) for f in failures] == [("bad", "ValueError: batches are not supported")]


def test_the_figure_is_the_median_over_rounds_per_text() -> None:
    outputs = [Output((1,), "x")] * 4
    timing = Timing("a", "only", [Run(seconds, outputs) for seconds in (100.0, 2.0, 1.0)])
    assert timing.ms_per_text == pytest.approx(500.0)
    assert timing.median.seconds == 2.0
