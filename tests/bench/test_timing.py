"""The race is fair: everyone runs every round, the fastest setting is chosen, nobody is dropped silently."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from apps.bench.timing import Contestant, Output, Runner, Timing, fastest_variant, race

TEXTS = ["one", "two", "three"]


def runner(log: list[str], name: str, seconds: float = 0.0) -> Runner:
    def run(texts: Sequence[str], rows: int) -> list[Output]:
        log.append(name)
        time.sleep(seconds)
        return [Output((len(text),), text, 1) for text in texts]

    return run


def test_contestants_take_turns_and_each_round_starts_with_another() -> None:
    log: list[str] = []
    entries = [Contestant(name, {"only": runner(log, name)}) for name in "abc"]
    timings, failures = race(entries, TEXTS, rows=1, rounds=3)
    assert "".join(log) == "abc" + "abc" + "bca" + "cab"
    assert not failures
    assert [len(timing.seconds) for timing in timings] == [3, 3, 3]


def test_the_fastest_setting_is_the_one_that_runs() -> None:
    log: list[str] = []
    entry = Contestant("a", {"slow": runner(log, "slow", 0.02), "fast": runner(log, "fast")})
    assert fastest_variant(entry, TEXTS, rows=1) == "fast"
    timings, _ = race([entry], TEXTS, rows=1, rounds=1)
    assert timings[0].setting == "fast"
    assert log[-2:] == ["fast", "fast"]


def test_a_contestant_that_cannot_run_is_reported_with_its_reason() -> None:
    def broken(texts: Sequence[str], rows: int) -> list[Output]:
        raise ValueError("batches are not supported\nand more words")

    timings, failures = race(
        [Contestant("good", {"only": runner([], "good")}), Contestant("bad", {"only": broken})], TEXTS, 2, 1
    )
    assert [timing.name for timing in timings] == ["good"]
    assert [(f.name, f.reason) for f in failures] == [("bad", "ValueError: batches are not supported")]


def test_the_figure_is_the_median_over_rounds_per_text() -> None:
    timing = Timing("a", "only", [Output((1,), "x")] * 4, seconds=[1.0, 2.0, 100.0])
    assert timing.ms_per_text == pytest.approx(500.0)
