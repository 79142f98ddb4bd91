"""The budget drafts as much as pays by the times it has measured, and nothing where nothing pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import Engine, Request, SamplingParams
from core.budget import MeasuredBudget, PassTimes
from core.ledger import REST, TRIAL
from core.types import DraftTree
from core.types import Sequence as Row
from tests.core.models import repetitive, target_of, word_tokenizer
from tests.core.scripted import Scripted


def bucket(num_queries: int) -> int:
    """1, 2, 3, 4, then multiples of 4."""
    return num_queries if num_queries <= 4 else -(-num_queries // 4) * 4


def chain(scores: list[float]) -> DraftTree:
    return DraftTree([5] * len(scores), list(range(-1, len(scores) - 1)), scores)


def decaying(chance: float, length: int) -> DraftTree:
    return chain([chance ** (i + 1) for i in range(length)])


def taught(seconds: Callable[[int, int], float], num_rows: int = 1, times: int = 10) -> MeasuredBudget:
    budget = MeasuredBudget(bucket, max_nodes=31)
    for width in sorted({bucket(q) for q in range(1, 33)}):
        for _ in range(times):
            budget.times.record(num_rows, num_rows * width, seconds(num_rows, width))
    return budget


def linear(num_rows: int, num_queries: int) -> float:
    """A processor that is busy already: N queries cost N times one."""
    return 0.001 * num_rows * num_queries


def flat(num_rows: int, num_queries: int) -> float:
    """A processor that waits for its memory: queries are free."""
    return 0.001


def rate(budget: MeasuredBudget, trees: list[DraftTree], nodes: int) -> float:
    """Expected tokens a second by the budget's own table."""
    gain = sum(sum(tree.scores[:nodes]) for tree in trees)
    return (len(trees) + gain) / budget.times.predict(len(trees), len(trees) * bucket(1 + nodes))


def same(counts: Sequence[int]) -> int:
    """The number that all rows were given."""
    assert len(set(counts)) == 1
    return counts[0]


SCORES = st.lists(st.floats(0, 1), max_size=31).map(lambda scores: sorted(scores, reverse=True))


@given(
    trees=st.lists(SCORES.map(chain), min_size=1, max_size=4),
    fixed=st.floats(0.0001, 0.01),
    slope=st.floats(0.00001, 0.01),
    bend=st.floats(0, 0.0005),
)
@settings(deadline=None, max_examples=200)
def test_what_is_drafted_pays_by_the_budgets_own_table(
    trees: list[DraftTree], fixed: float, slope: float, bend: float
) -> None:
    budget = taught(lambda rows, q: fixed + slope * rows * q + bend * rows * q**1.5, len(trees))
    nodes = same(budget.choose(trees))
    longest = max(len(tree) for tree in trees)
    assert 0 <= nodes <= longest
    # Going to a draft's end in one pass may cost a trifle now for a pass that is saved later.
    assert rate(budget, trees, nodes) >= 0.95 * rate(budget, trees, 0)
    assert rate(budget, trees, nodes) >= 0.5 * max(rate(budget, trees, n) for n in range(longest + 1))


@given(trees=st.lists(SCORES.map(chain), min_size=1, max_size=4), slope=st.floats(0.0, 0.001))
@settings(deadline=None)
def test_a_pass_that_is_padded_to_a_bucket_fills_it(trees: list[DraftTree], slope: float) -> None:
    budget = taught(lambda rows, q: 0.001 + slope * rows * q, len(trees))
    nodes = same(budget.choose(trees))
    assert nodes == max(len(tree) for tree in trees) or bucket(1 + nodes) == 1 + nodes


@pytest.mark.parametrize("num_rows", [1, 8])
def test_poor_drafts_are_not_verified_where_every_query_costs_its_share(num_rows: int) -> None:
    assert taught(linear, num_rows).choose([decaying(0.4, 20)] * num_rows) == [0] * num_rows


@pytest.mark.parametrize("num_rows", [1, 8])
def test_everything_is_verified_where_queries_are_free(num_rows: int) -> None:
    assert taught(flat, num_rows).choose([decaying(0.8, 20)] * num_rows) == [20] * num_rows


def test_better_drafts_are_verified_deeper() -> None:
    budget = taught(lambda rows, q: 0.001 + 0.0001 * q)
    chosen = [same(budget.choose([decaying(chance, 31)])) for chance in (0.05, 0.5, 0.8, 0.95)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[-1]


def test_a_budget_that_knows_nothing_drafts_and_learns_to_stop() -> None:
    budget = MeasuredBudget(bucket, max_nodes=31)
    trees = [decaying(0.6, 12)]
    assert same(budget.choose(trees)) > 0
    for step in range(200):
        nodes = same(budget.choose(trees))
        expected = 1 + sum(trees[0].scores[:nodes])
        budget.record(1, bucket(1 + nodes), expected, linear(1, bucket(1 + nodes)))
        if step % 10 == 9:  # rows without a draft pass by
            budget.record(1, 1, 1, linear(1, 1))
    assert budget.choose(trees) == [0]


def taught_flat(num_rows: int, fixed: float, slope: float) -> MeasuredBudget:
    """A budget of a target that runs rows without the padding between them."""
    budget = MeasuredBudget(bucket, bucket, max_nodes=31)
    for size in sorted({bucket(q) for q in range(num_rows, 32 * num_rows)}):
        for _ in range(8):
            budget.times.record(num_rows, size, fixed + slope * size)
    return budget


@given(
    trees=st.lists(SCORES.map(chain), min_size=2, max_size=4),
    fixed=st.floats(0.0001, 0.01),
    slope=st.floats(0.00001, 0.01),
)
@settings(deadline=None, max_examples=100)
def test_rows_without_padding_share_the_nodes_that_pay(
    trees: list[DraftTree], fixed: float, slope: float
) -> None:
    budget = taught_flat(len(trees), fixed, slope)
    counts = budget.choose(trees)

    def rate(taken: Sequence[int]) -> float:
        gain = sum(sum(tree.scores[:n]) for tree, n in zip(trees, taken, strict=True))
        size = bucket(len(trees) + sum(taken))
        return (len(trees) + gain) / budget.times.predict(len(trees), size)

    assert all(0 <= n <= len(tree) for n, tree in zip(counts, trees, strict=True))
    for n in range(32):
        # Where the numbers are about equally good, the larger one is taken.
        assert rate(counts) >= 0.95 * rate([min(n, len(tree)) for tree in trees])


def test_a_row_with_poor_drafts_does_not_widen_the_pass_of_its_neighbours() -> None:
    counts = taught_flat(2, 0.001, 0.0001).choose([decaying(0.99, 20), decaying(0.2, 20)])
    assert counts[0] > 12
    assert counts[1] < 4


def test_what_a_sure_pass_leaves_out_is_measured_by_the_rate_of_late() -> None:
    """Alone, the pass would take its first, certain nodes only; beside ordinary passes the rest pays too."""
    tree = chain([1.0] * 8 + [0.6] * 8)
    alone = taught(lambda rows, q: 0.0005 + 0.0001 * q)
    assert same(alone.choose([tree])) < 16
    budget = taught(lambda rows, q: 0.0005 + 0.0001 * q)
    for _ in range(20):
        budget.rates.record(1, 3, 0.0009)
    assert same(budget.choose([tree])) >= 15


def test_no_drafts_no_nodes() -> None:
    assert MeasuredBudget(bucket).choose([DraftTree(), DraftTree()]) == [0, 0]


@pytest.mark.parametrize("num_rows", [1, 7, 64, 5000])
def test_the_limit_bounds_a_rows_tree_and_all_rows_together(num_rows: int) -> None:
    budget = MeasuredBudget(bucket, max_nodes=31, max_queries=256)
    assert 1 <= budget.limit(num_rows) <= 31
    assert budget.limit(num_rows) * num_rows <= max(256, num_rows)


def test_a_shape_is_remembered_and_others_are_read_off_the_line() -> None:
    times = PassTimes()
    for _ in range(50):
        for width in (1, 8, 16):
            times.record(1, width, 0.001 + 0.0001 * width)
    assert times.predict(1, 8) == pytest.approx(0.0018, rel=0.05)
    assert times.predict(1, 32) == pytest.approx(0.0042, rel=0.25)
    assert times.predict(1, 1) < times.predict(1, 16) < times.predict(1, 64)


def test_the_engine_stops_drafting_when_its_passes_turn_out_to_cost_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prompt = repetitive(12, seed=0)
    target = target_of("llama")
    target.eos_token_ids = frozenset()
    wrong = Scripted({tuple(prompt): []}, size=12)
    engine = Engine(target, word_tokenizer(), wrong, max_rows=1)
    # Unscored trees count as certain, so the times alone must talk the budget out of them.
    record = engine.budget.record
    monkeypatch.setattr(
        engine.budget, "record", lambda rows, q, tokens, *seconds: record(rows, q, tokens, 0.001 * q**1.5)
    )
    engine.generate([Request(prompt)], SamplingParams(max_new_tokens=60))
    drafted = engine.stats.drafted
    engine.generate([Request(prompt)], SamplingParams(max_new_tokens=60))
    assert engine.stats.drafted - drafted < 60


def loops_cost(num_rows: int, num_queries: int) -> float:
    """A pass whose rows cost as well as their queries, as the loop's own work makes it."""
    return 0.0024 + 0.00008 * num_rows + 0.0001 * num_queries


def started(kind: str, most_rows: int) -> MeasuredBudget:
    """A budget with the past of that kind: which widths it met, and how slow the machine was meanwhile."""
    budget = MeasuredBudget(bucket, bucket, max_nodes=63)
    past = {
        "fresh": [],
        "narrow": [(2, 1, 150)],
        "plain": [(0, 1, 150)],
        "wide": [(40, 1, 150)],
        "wide was slow": [(1, 1, 40), (30, 10, 20)],
        "all was slow": [(8, 10, 40)],
    }
    for nodes, slowness, times in past[kind]:
        for step in range(times):
            rows = max(most_rows - step % 4, 1)
            size = bucket(rows * (1 + nodes))
            budget.record(rows, size, rows * (1 + 0.8 * nodes), slowness * loops_cost(rows, size))
    return budget


def settled(budget: MeasuredBudget, most_rows: int) -> float:
    """Nodes per row after many passes over like drafts, whose times have no noise."""
    taken: list[float] = []
    for step in range(1500):
        rows = max(most_rows - step % 4, 1)
        trees = [decaying((0.9, 0.95, 0.98)[(step + row) % 3], 30) for row in range(rows)]
        counts = budget.choose(trees)
        written = rows + sum(sum(tree.scores[:n]) for tree, n in zip(trees, counts, strict=True))
        size = bucket(1 + counts[0]) if rows == 1 else bucket(rows + sum(counts))
        budget.record(rows, size, written, loops_cost(rows, size))
        taken.append(sum(counts) / rows)
    return sum(taken[-150:]) / 150


@pytest.mark.parametrize("most_rows", [1, 8])
def test_the_same_drafts_and_costs_lead_to_the_same_nodes_from_any_start(most_rows: int) -> None:
    kinds = ("fresh", "narrow", "plain", "wide", "wide was slow", "all was slow")
    nodes = {kind: settled(started(kind, most_rows), most_rows) for kind in kinds}
    assert max(nodes.values()) < 1.1 * min(nodes.values()), nodes


def test_where_every_query_costs_its_share_drafting_is_given_up_though_plain_decoding_was_never_seen() -> (
    None
):
    budget = MeasuredBudget(bucket, bucket)
    seconds = tokens = 0.0
    for step in range(1000):
        trees = [decaying(0.6 + 0.05 * ((step + row) % 4), 10 + (step + row) % 5) for row in range(8)]
        counts = budget.choose(trees)
        size = bucket(8 + sum(counts))
        written = 8 + sum(sum(tree.scores[:n]) for tree, n in zip(trees, counts, strict=True))
        budget.record(8, size, written, 0.001 * size)
        if step >= 200:
            seconds, tokens = seconds + 0.001 * size, tokens + written
    assert seconds / tokens < 1.05 * 0.001


def spent(budget: MeasuredBudget, num_rows: int, accepted: float, drafting: float, steps: int) -> list[int]:
    """Steps of 10 ms with 4 nodes a row where drafts are asked for, and the limits that were given."""
    limits = []
    for _ in range(steps):
        limits.append(budget.limit(num_rows))
        if limits[-1]:
            budget.record(num_rows, num_rows * 5, int(num_rows * (1 + accepted)), 0.01, drafting)
        else:
            budget.record(num_rows, num_rows, num_rows, 0.009)
    return limits


def test_drafting_that_costs_more_than_it_saves_rests_for_longer_every_time() -> None:
    budget = MeasuredBudget(bucket)
    limits = spent(budget, 1, accepted=1, drafting=0.02, steps=2 * (TRIAL + 1) + 3 * REST)
    awake = [step for step, limit in enumerate(limits) if limit]
    assert len(awake) < 3 * TRIAL
    again = next(step for step in awake if step > awake[0] + REST)
    assert again - TRIAL == pytest.approx(REST, abs=3)
    assert not any(limits[-REST:])


def test_drafting_that_saves_more_than_it_costs_never_rests() -> None:
    assert all(spent(MeasuredBudget(bucket), 1, accepted=4, drafting=0.02, steps=10 * TRIAL))


def test_what_does_not_pay_for_many_rows_goes_on_for_one() -> None:
    budget = MeasuredBudget(bucket)
    assert not all(spent(budget, 8, accepted=0, drafting=0.02, steps=TRIAL))
    assert all(spent(budget, 1, accepted=4, drafting=0.02, steps=TRIAL))


def test_a_machine_that_stood_still_for_a_moment_makes_no_drafter_rest() -> None:
    budget = MeasuredBudget(bucket)
    assert all(spent(budget, 8, accepted=3, drafting=0.001, steps=2 * TRIAL))
    budget.record(8, 40, 32, 5.0, 0.001)
    assert all(spent(budget, 8, accepted=3, drafting=0.001, steps=2 * TRIAL))


def test_a_budget_that_cannot_rest_goes_on_asking() -> None:
    budget = MeasuredBudget(bucket, can_rest=False)
    assert all(spent(budget, 1, accepted=0, drafting=1.0, steps=10 * TRIAL))


def test_the_engine_asks_a_drafter_that_takes_long_for_nothing_less_and_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prompt = repetitive(12, seed=0)
    target = target_of("llama")
    target.eos_token_ids = frozenset()
    drafter = Scripted({tuple(prompt): []}, size=12)
    engine = Engine(target, word_tokenizer(), drafter, max_rows=1)
    now, propose, asked = [0.0], drafter.propose, []
    # Each look at the clock is 1 ms later, and drafting takes a second.
    monkeypatch.setattr(engine, "_work_time", lambda: now.append(now[-1] + 0.001) or now[-1])

    def slowly(rows: Sequence[Row], max_nodes: Sequence[int]) -> list[DraftTree]:
        asked.append(max(max_nodes) > 0)
        now.append(now[-1] + asked[-1])
        return propose(rows, max_nodes)

    monkeypatch.setattr(drafter, "propose", slowly)
    engine.generate([Request(prompt)], SamplingParams(max_new_tokens=100))
    assert sum(asked) < 2 * TRIAL < len(asked)
