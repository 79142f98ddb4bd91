"""What the adaptive trigram promises: a bounded table that learns from every verified node, and sound trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.drafters.adaptive_trigram import AdaptiveTrigram
from core.drafters.growth import MIN_SCORE, Guess, best_first
from core.drafters.tree_search import SearchOptions, search
from core.drafters.trigram_table import TrigramTable
from core.types import Verdict
from tests.drafters.writing import EOS, UNHURRIED, VOCAB, cycle, output_of, passes, row_of, step

TOKENS = st.integers(10, 14)


def drafter(**options: Any) -> AdaptiveTrigram:
    return AdaptiveTrigram(VOCAB, eos_token_ids=frozenset({EOS}), **options)


# -- the table ----------------------------------------------------------------------------------------


def test_an_unknown_context_takes_the_distribution_and_a_known_one_moves_towards_it() -> None:
    table = TrigramTable()
    table.update(5, 6, [(7, 0.8), (8, 0.2)], 0.5)
    assert table.lookup(5, 6) == ([(7, 0.8), (8, 0.2)], False)
    table.update(5, 6, [(8, 1.0)], 0.5)
    entry, is_backoff = table.lookup(5, 6)
    assert not is_backoff
    assert dict(entry) == pytest.approx({8: 0.6, 7: 0.4})
    assert [token for token, _ in entry] == [8, 7]


def test_an_unknown_pair_falls_back_to_its_last_token() -> None:
    table = TrigramTable()
    table.update(5, 6, [(7, 1.0)], 0.5)
    assert table.lookup(9, 6) == ([(7, 1.0)], True)
    assert table.lookup(5, 9) == ([], True)


def test_the_table_is_bounded_and_forgets_what_was_not_updated_longest() -> None:
    table = TrigramTable(num_contexts=10)
    for i in range(100):
        table.update(0, 1, [(2, 1.0)], 0.5)
        table.update(1000 + i, 2000 + i, [(3, 1.0)], 0.5)
        assert len(table) <= 10
    assert table.lookup(0, 1)[0]
    assert table.lookup(1099, 2099)[0]
    assert not table.lookup(1000, 2000)[0]


@given(st.lists(TOKENS, max_size=45))
@UNHURRIED
def test_a_corpus_is_counted_exactly(corpus: list[int]) -> None:
    table = TrigramTable(num_successors=5)
    table.count(corpus)
    for i in range(2, len(corpus)):
        context = (corpus[i - 2], corpus[i - 1])
        following = [corpus[j] for j in range(2, len(corpus)) if (corpus[j - 2], corpus[j - 1]) == context]
        entry, is_backoff = table.lookup(*context)
        assert not is_backoff
        wanted = {token: following.count(token) / len(following) for token in following}
        assert dict(entry) == pytest.approx(wanted)


# -- learning -----------------------------------------------------------------------------------------


def test_the_table_learns_from_rejected_nodes_too() -> None:
    trigram = drafter(prompt_weight=0.0, lag=1)
    row = row_of([3], tokens=[20, 21])
    trigram.begin(row)
    # After 21 comes 22, but also the rejected 40 is verified, and with it what would have followed.
    trigram.table.update(20, 21, [(40, 0.9)], 1.0)
    (tree,) = step(trigram, [row], 4, lambda tokens: {21: 22, 40: 41}.get(tokens[-1], 50))
    assert list(tree.tokens) == [40]
    assert row.tokens == [20, 21, 22]
    assert trigram.table.lookup(21, 40)[0][0][0] == 41
    assert dict(trigram.table.lookup(20, 21)[0])[22] > 0.4


def test_passes_that_are_learnt_from_together_teach_the_same() -> None:
    tables = []
    for lag in (1, 7):
        trigram = drafter(prompt_weight=0.0, lag=lag)
        row = row_of([3], tokens=[20, 21])
        trigram.begin(row)
        for _ in range(7):
            step(trigram, [row], 0, cycle(30))
            assert (lag == 1) == (not trigram._seen) or len(row.tokens) == 9
        tables.append(trigram.table._entries)
    assert tables[0] == tables[1]
    assert len(tables[0]) == 14


def test_a_new_row_finds_all_that_was_seen_before() -> None:
    trigram = drafter(prompt_weight=0.0, lag=9)
    row = row_of([3], tokens=[20, 21])
    trigram.begin(row)
    step(trigram, [row], 4, cycle(30))
    assert len(trigram.table) == 0
    trigram.begin(row_of([3], id=1))
    assert len(trigram.table) == 2


def test_without_adaptation_the_table_stays_as_it_is() -> None:
    trigram = drafter(corpus=[10, 11, 12, 13] * 3, is_adaptive=False)
    before = trigram.table.copy()._entries
    assert passes(trigram, row_of([30, 31, 32]), 30, cycle(7)) <= 30
    assert trigram.table._entries == before


def test_a_warm_table_and_a_prompt_save_passes() -> None:
    cold = passes(drafter(prompt_weight=0.0), row_of([3]), 20, cycle(30))
    warm = passes(drafter(corpus=list(range(10, 40))), row_of([3]), 20, cycle(30))
    read = passes(drafter(), row_of(list(range(10, 40))), 20, cycle(30))
    assert cold >= 20
    assert warm < cold / 2
    assert read < cold / 2


def test_engine_state_outlives_a_request_and_request_state_does_not() -> None:
    for scope, is_kept in (("engine", True), ("request", False)):
        trigram = drafter(scope=scope)
        first = passes(trigram, row_of([3], id=0), 30, cycle(30))
        again = passes(trigram, row_of([3], id=1), 30, cycle(30))
        assert (again < first) == is_kept
        assert not trigram._tables
        assert not trigram._contexts


def test_a_corpus_outside_the_vocabulary_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "corpus.npy"
    np.save(path, np.array([1, VOCAB]))
    with pytest.raises(ValueError, match="vocabulary holds 64"):
        drafter(corpus=path)
    np.save(path, np.arange(10, 40))
    assert passes(drafter(corpus=path), row_of([3]), 20, cycle(30)) < 10
    text = tmp_path / "corpus.txt"
    text.write_text("words", encoding="utf-8")
    with pytest.raises(ValueError, match="tokenizer"):
        drafter(corpus=text)


@pytest.mark.parametrize(
    "options", [{"scope": "world"}, {"adaptation": 2}, {"simulations": 0}, {"lag": 0}, {"exploration": -1.0}]
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        drafter(**options)


# -- the search ---------------------------------------------------------------------------------------

Graph = dict[int, list[tuple[int, float]]]
GRAPHS = st.dictionaries(
    st.integers(0, 6),
    st.lists(st.tuples(st.integers(0, 6), st.floats(0.05, 1)), max_size=4, unique_by=lambda item: item[0]),
)


def children_of(graph: Graph) -> Any:
    def children(state: int) -> list[Guess]:
        ranked = sorted(graph.get(state, ()), key=lambda item: -item[1])
        return [(token, probability, state, token) for token, probability in ranked]

    return children


@given(graph=GRAPHS, limit=st.integers(1, 20), simulations=st.integers(1, 30), exploration=st.floats(0, 5))
@UNHURRIED
def test_the_search_grows_sound_trees(graph: Graph, limit: int, simulations: int, exploration: float) -> None:
    options = SearchOptions(simulations=simulations, max_depth=6, exploration=exploration)
    tree = search(0, children_of(graph), limit, options)
    tree.check()
    assert len(tree) <= limit
    assert max(tree.depths(), default=0) <= 6
    assert tree.scores is not None
    for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
        state = tree.tokens[parent] if parent >= 0 else 0
        above = tree.scores[parent] if parent >= 0 else 1.0
        assert tree.scores[node] == pytest.approx(above * dict(graph[state])[token])
        assert tree.scores[node] >= MIN_SCORE
    edges = list(zip(tree.parents, tree.tokens, strict=True))
    assert len(set(edges)) == len(edges)


@given(graph=GRAPHS)
@UNHURRIED
def test_without_exploration_the_search_follows_the_likeliest_path(graph: Graph) -> None:
    tree = search(0, children_of(graph), 99, SearchOptions(simulations=20, exploration=0.0))
    assert list(tree.parents) == list(range(-1, len(tree) - 1))


def test_exploration_visits_more_branches() -> None:
    graph = {state: [(10 * state + i, p) for i, p in ((1, 0.6), (2, 0.3), (3, 0.1))] for state in range(2000)}
    leaves = []
    for exploration in (0.0, 0.5, 4.0):
        options = SearchOptions(simulations=24, max_depth=3, exploration=exploration)
        tree = search(1, children_of(graph), 99, options)
        leaves.append(len(set(range(len(tree))) - set(tree.parents)))
    assert leaves[0] == 1 < leaves[1] <= leaves[2]


@given(graph=GRAPHS, limit=st.integers(1, 12))
@UNHURRIED
def test_best_first_takes_the_likeliest_nodes(graph: Graph, limit: int) -> None:
    few = best_first(0, children_of(graph), limit, max_depth=4)
    many = best_first(0, children_of(graph), 500, max_depth=4)
    assert few.scores is not None
    assert many.scores is not None
    assert list(few.scores) == sorted(many.scores, reverse=True)[:limit]


def test_observing_needs_no_tree() -> None:
    trigram = drafter(lag=1)
    row = row_of([3], tokens=[20, 21])
    trigram.begin(row)
    trees = trigram.propose([row], [0])
    assert len(trees[0]) == 0
    output = output_of([row], trees, lambda tokens: 33)
    trigram.observe([row], trees, [Verdict((), 33)], output)
    assert trigram.table.lookup(20, 21)[0][0][0] == 33
