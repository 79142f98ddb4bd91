"""The scheduler finds the plan of the highest rate, and the rate is what a simulated loop would reach."""

from __future__ import annotations

import random
from dataclasses import astuple

import pytest

from apps.ralm import SpeculationConfig
from apps.ralm.latencies import Latencies, LatencyFit, Spent
from apps.ralm.scheduler import (
    HitRate,
    Plan,
    Scheduler,
    best_plan,
    expected_rate,
    published_rate,
)

#: The paper's objective over gamma and b/a: the best stride and the speedup that it predicts, by hand from the formula.
PREDICTED = {(0.6, 1): (2, 1.07), (0.6, 40): (6, 2.12), (0.8, 3): (4, 1.69), (0.9, 40): (19, 6.01)}


@pytest.mark.parametrize(("given", "expected"), PREDICTED.items())
def test_the_best_stride_is_that_of_the_papers_formula(
    given: tuple[float, float], expected: tuple[int, float]
) -> None:
    hit_rate, ratio = given
    config = SpeculationConfig(asynchronous=False, as_published=True)
    latencies = Latencies(1.0, ratio)
    plan = best_plan(latencies, hit_rate, config)
    assert plan.steps == expected[0]
    assert published_rate(plan, latencies, hit_rate) * (1 + ratio) == pytest.approx(expected[1], abs=0.01)


def simulated_rate(plan: Plan, latencies: Latencies, hit_rate: float, max_ahead: int) -> float:
    """The loop of `speculation` with a clock instead of a model."""
    rng = random.Random(0)
    clock, documents, pending = 0.0, 0, 0
    is_known = False
    a = latencies.step
    while documents < 4_000:
        while True:
            if not is_known:
                pending += 1
            if pending >= plan.steps:
                break
            clock, is_known = clock + a, False
        b, asked, ahead = latencies.verification(plan.steps), pending, 0
        if plan.asynchronous:
            writing, searching = 1 - latencies.step_lost, 1 - latencies.search_lost
            spent, pending, ahead = a / writing, 0, 1
            while ahead < max_ahead and spent + 1e-9 < b / searching:
                spent, ahead, pending = spent + a / writing, ahead + 1, pending + 1
            both = min(spent, b / searching)  # then the one that is left has the cores to itself
            clock += both + max((spent - both) * writing, (b / searching - both) * searching)
            is_known = False
        else:
            clock, is_known, pending = clock + b, True, 0
        right = next((i for i in range(asked) if rng.random() >= hit_rate), asked)
        documents += min(right + 1, asked)
        if right < asked:
            is_known, pending = True, 0
    return documents / clock


@pytest.mark.parametrize(
    "plan", [Plan(1, False), Plan(6, False), Plan(1, True), Plan(4, True), Plan(12, True)]
)
@pytest.mark.parametrize("ratio", [0.25, 1, 3, 12])
@pytest.mark.parametrize("hit_rate", [0.3, 0.9])
@pytest.mark.parametrize("lost", [(0.0, 0.0), (0.5, 0.5), (0.6, 0.1)])
def test_the_expected_rate_is_that_of_the_loop(
    plan: Plan, ratio: float, hit_rate: float, lost: tuple[float, float]
) -> None:
    latencies = Latencies(1.0, ratio, step_lost=lost[0], search_lost=lost[1])
    expected = expected_rate(plan, latencies, hit_rate, max_ahead=16)
    assert simulated_rate(plan, latencies, hit_rate, 16) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("ratio", [0.02, 0.25, 1, 10])
def test_nothing_is_guessed_where_guesses_are_wrong(ratio: float) -> None:
    plan = best_plan(Latencies(1.0, ratio), 0.02, SpeculationConfig())
    assert expected_rate(plan, Latencies(1.0, ratio), 0.02, 16) * (1 + ratio) < 1.05
    assert plan.steps == 1


def test_a_lookup_that_costs_as_much_as_a_retrieval_is_not_worth_a_guess() -> None:
    fit = LatencyFit()
    fit.record_step(Spent(1.0))
    fit.record_lookup(0.2)
    fit.record_alone(1, Spent(0.25))
    assert best_plan(fit.latencies(), 0.9, SpeculationConfig()) == Plan(1, False)
    cheap = Latencies(1.0, 0.25, lookup=0.001)
    assert best_plan(cheap, 0.9, SpeculationConfig()) == Plan(1, True)


def test_a_line_through_latencies_is_found_and_never_falls() -> None:
    fit = LatencyFit()
    fit.record_step(Spent(2.0))
    for size in (1, 4, 9):
        fit.record_alone(size, Spent(3.0 + 0.5 * size))
    assert astuple(fit.latencies(width=2)) == pytest.approx((2.0, 3.0, 0.5, 2, 0.0, 0.0, 0.0))
    assert fit.latencies(width=2).verification(4) == pytest.approx(7.0)
    falling = LatencyFit()
    falling.record_step(Spent(1.0))
    for size, seconds in ((1, 3.0), (9, 1.0)):
        falling.record_alone(size, Spent(seconds))
    assert falling.latencies().per_query == 0
    assert falling.latencies().base == pytest.approx(2.0)


@pytest.mark.parametrize(("busy", "lost"), [(6.0, 0.0), (3.0, 0.5), (0.0, 0.75)])
def test_what_waits_for_a_core_is_told_from_what_takes_long(busy: float, lost: float) -> None:
    """Alone the verification computes for 4 of 4 seconds; beside writing it takes 6, and computes for `busy`."""
    fit = LatencyFit()
    fit.record_step(Spent(1.0, 1.0))
    fit.record_alone(1, Spent(4.0, 4.0))
    fit.record_beside(1, Spent(6.0, busy), writing=6.0)
    fit.record_step(Spent(1.0 / (1 - lost), 1.0), is_beside=True)
    found = fit.latencies()
    assert (found.step_lost, found.search_lost) == pytest.approx((lost, lost))
    assert found.base == pytest.approx((4 + 6 * (1 - lost)) / 2)
    assert found.step == pytest.approx(1.0)


def test_a_verification_elsewhere_wants_no_core() -> None:
    """A remote service: its thread sleeps, alone and beside writing."""
    fit = LatencyFit()
    fit.record_step(Spent(1.0, 0.9))
    fit.record_alone(1, Spent(4.0, 0.01))
    fit.record_step(Spent(2.0, 0.9), is_beside=True)
    fit.record_beside(1, Spent(5.0, 0.0), writing=2.0)
    assert fit.latencies().search_lost == pytest.approx(0.0125 / 2)
    assert fit.latencies().step_lost == pytest.approx(0.01 / 4)


def test_waiting_for_cores_is_measured_again_after_a_while_without() -> None:
    fit = LatencyFit()
    fit.record_step(Spent(1.0, 1.0))
    fit.record_alone(1, Spent(4.0, 4.0))
    fit.record_step(Spent(2.0, 1.0), is_beside=True)
    fit.record_beside(1, Spent(8.0, 4.0), writing=8.0)
    for num_alone, lost in ((60, 0.5), (10, 0.0)):
        for _ in range(num_alone):
            fit.record_alone(1, Spent(4.0, 4.0))
        assert (fit.latencies().step_lost, fit.latencies().search_lost) == (lost, lost)


def test_steps_beside_a_verification_take_the_longer_of_both_and_what_they_take_from_each_other() -> None:
    assert Latencies(1.0, 1.0).overlapped(3.0, 5.0) == 5
    one_core = Latencies(1.0, 1.0, step_lost=0.5, search_lost=0.5)
    assert one_core.overlapped(3.0, 5.0) == one_core.overlapped(5.0, 3.0) == 8
    assert one_core.beside(5.0) == 5
    pushed = Latencies(1.0, 1.0, step_lost=0.75)  # the verification does not notice
    assert (pushed.overlapped(2.0, 4.0), pushed.beside(4.0)) == (5, 1)


@pytest.mark.parametrize("ratio", [0.5, 2, 10])
def test_nothing_runs_beside_each_other_on_one_core(ratio: float) -> None:
    """What is written ahead is paid in full then, and may be lost."""
    for hit_rate in (0.8, 0.95):
        assert best_plan(Latencies(1.0, ratio), hit_rate, SpeculationConfig()).asynchronous
        alone = Latencies(1.0, ratio, step_lost=0.5, search_lost=0.5)
        assert not best_plan(alone, hit_rate, SpeculationConfig()).asynchronous


def test_a_step_takes_what_steps_take_on_average_but_for_outliers() -> None:
    fit = LatencyFit()
    fit.record_alone(1, Spent(1.0))
    for seconds in (9.0, 1.0, 1.0, 3.0, 1.0, 3.0, 1.0, 1.0):  # the first one warms up, some read a document
        fit.record_step(Spent(seconds))
    assert fit.latencies().step == pytest.approx((4 * 1 + 2 * 3) / 6)


def test_the_hit_rate_forgets_and_is_capped() -> None:
    rate = HitRate(SpeculationConfig(window=2, max_hit_rate=0.9, prior_hits=1))
    assert rate.value == 0.9
    rate.record(1, 2)
    assert rate.value == pytest.approx(2 / 4)
    rate.record(8, 0)
    rate.record(8, 1)
    assert rate.value == 0.9
    assert HitRate(SpeculationConfig.paper()).value == 0


def test_a_hit_rate_of_single_guesses_comes_from_more_of_them_than_the_window() -> None:
    """Five right ones in a row are nothing rare where six in ten are right."""
    ours, published = HitRate(SpeculationConfig(prior_hits=0)), HitRate(SpeculationConfig.paper())
    for rate in (ours, published):
        for is_right in [0] * 20 + [1, 0] * 6 + [1] * 5:
            rate.record(is_right, 1 - is_right)
    assert ours.value == pytest.approx((5 + 5) / 16)
    assert published.value == 0.6  # all right, capped


def test_without_the_scheduler_the_stride_stays() -> None:
    scheduler = Scheduler(SpeculationConfig(scheduler=False, steps=5, asynchronous=False))
    assert scheduler.plan() == Plan(5, False)


@pytest.mark.parametrize("wrong", [{"prefetch": 0}, {"max_hit_rate": 1.0}, {"prior_hits": -1}, {"window": 0}])
def test_settings_out_of_range_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SpeculationConfig(**wrong)  # type: ignore[arg-type]


def ready(step: float, lookup: float, verification: float) -> Scheduler:
    scheduler = Scheduler(SpeculationConfig())
    scheduler.fit.record_step(Spent(step))
    scheduler.fit.record_lookup(lookup)
    scheduler.fit.record_alone(1, Spent(verification))
    return scheduler


@pytest.mark.parametrize(
    ("lookup", "verification", "expected"), [(0.0, 0.04, True), (0.2, 0.25, True), (0.01, 0.25, False)]
)
def test_nothing_is_guessed_where_right_guesses_would_not_pay(
    lookup: float, verification: float, expected: bool
) -> None:
    scheduler = ready(1.0, lookup, verification)
    assert scheduler.is_hopeless() == expected
    assert (scheduler.plan() == Plan(1, False)) == expected


def test_guessing_pauses_where_it_was_slower_than_plain_retrieval_and_longer_every_time() -> None:
    scheduler = ready(1.0, 0.0, 1.0)
    guessed, pauses = scheduler.plan(), []
    assert guessed != Plan(1, False)
    for _ in range(2):
        while not scheduler.is_hopeless():
            scheduler.record(guessed, seconds=2.5, retrievals=1)
        pauses.append(0)
        while scheduler.plan() == Plan(1, False):
            scheduler.record(Plan(1, False), seconds=2.0, retrievals=1)
            pauses[-1] += 1
    assert pauses[1] == 2 * pauses[0] > 0
    for _ in range(20):
        scheduler.record(guessed, seconds=1.5, retrievals=1)
    assert scheduler.plan() == guessed
    while not scheduler.is_hopeless():
        scheduler.record(guessed, seconds=2.5, retrievals=1)
    for _ in range(pauses[0]):
        assert scheduler.is_hopeless()
        scheduler.record(Plan(1, False), seconds=2.0, retrievals=1)
    assert not scheduler.is_hopeless(), "a pause after success is as short as the first one"


def test_the_best_plan_is_that_of_all_strides() -> None:
    config, rng = SpeculationConfig(), random.Random(0)
    for _ in range(100):
        base, per_query, hit_rate = (
            10 ** rng.uniform(-2, 2),
            10 ** rng.uniform(-4, -1),
            rng.uniform(0.02, 0.95),
        )
        latencies = Latencies(1.0, base, per_query)
        rates = [
            expected_rate(Plan(steps, way), latencies, hit_rate, config.max_ahead)
            for steps in range(1, config.max_steps + 1)
            for way in (False, True)
        ]
        chosen = expected_rate(best_plan(latencies, hit_rate, config), latencies, hit_rate, config.max_ahead)
        assert chosen == max(rates) or max(rates) <= 1.05 / latencies.plain
