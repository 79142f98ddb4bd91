"""Several drafters in one tree: every part sees what became of its own guesses, and idle parts rest."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import drafters
from core.drafters.base import Drafter
from core.drafters.merged import Merged
from core.drafters.sam import Sam
from core.drafters.token_recycling import TokenRecycling
from core.drafters.tree_builder import TreeBuilder
from core.ledger import LONGEST_REST, REST, TRIAL, Ledger
from core.targets.base import PassOutput
from core.types import EMPTY_TREE, DraftTree, Sequence, Verdict
from core.verification import walk
from tests.core.models import target_of
from tests.core.strategies import trees
from tests.drafters.writing import EOS, NO_OUTPUT, UNHURRIED, VOCAB, cycle, passes, row_of, step

FEW = st.integers(3, 5)


class Fixed(Drafter):
    """Always the same trees; keeps what it was shown."""

    def __init__(self, tree: DraftTree, needs_logits: bool = False) -> None:
        self.tree = tree
        self.needs_logits = needs_logits
        self.seen: list[tuple[DraftTree, Verdict]] = []
        self.num_proposed = 0

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        self.num_proposed += 1
        return [self.tree] * len(rows)

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        self.seen += zip(trees, verdicts, strict=True)


def without_twins(tree: DraftTree) -> DraftTree:
    """Siblings with the same token made one, scores falling along every path."""
    builder = TreeBuilder()
    places = {-1: -1}
    for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
        score = 0.5 + 0.5 * (tree.scores or [1.0] * len(tree))[node]
        places[node] = builder.add(places[parent], token, score, f"node {node}")
    return builder.build(99)


def paths(tree: DraftTree) -> set[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return set(found)


@given(
    given_trees=st.lists(trees(8, FEW).map(without_twins), min_size=1, max_size=3),
    needs=st.lists(st.booleans(), min_size=3, max_size=3),
    truth=st.lists(FEW, min_size=12, max_size=12),
    kept=st.integers(0, 20),
)
@UNHURRIED
def test_every_part_sees_the_verdict_on_its_own_nodes(
    given_trees: list[DraftTree], needs: list[bool], truth: list[int], kept: int
) -> None:
    parts = [Fixed(tree, need) for tree, need in zip(given_trees, needs, strict=False)]
    merged = Merged(parts)
    row = row_of([9])
    merged.begin(row)
    (tree,) = merged.propose([row], [99])
    tree.check()
    assert paths(tree) <= set().union(*(paths(part.tree) for part in parts))
    tree = tree.prefix(kept)
    verdict = walk(tree, [truth[0], *(truth[depth] for depth in tree.depths())])
    merged.observe([row], [tree], [verdict], NO_OUTPUT)
    for part in parts:
        ((seen, mine),) = part.seen
        own = [i for i, origin in enumerate(seen.origins or ()) if origin is not None]
        if part.needs_logits:
            assert list(seen.tokens) == list(tree.tokens)
            assert mine == verdict
        else:
            assert len(own) == len(seen)
            assert mine == walk(seen, [truth[0], *(truth[depth] for depth in seen.depths())])
        # What it is told about a node is what it once said about it.
        for i in own:
            assert seen.origins is not None
            assert part.tree.origins is not None
            assert seen.origins[i] in part.tree.origins
            theirs = list(part.tree.origins).index(seen.origins[i])
            assert part.tree.tokens[theirs] == seen.tokens[i]


def test_a_merged_tree_is_as_good_as_its_best_part() -> None:
    def parts() -> list[Drafter]:
        return [Sam(VOCAB), TokenRecycling(VOCAB)]

    for language, prompt in ((cycle(40), list(range(10, 50))), (cycle(9), [3])):
        alone = [passes(part, row_of(prompt), 80, language, limit=30) for part in parts()]
        together = passes(Merged(parts()), row_of(prompt), 80, language, limit=30)
        assert together <= min(alone) + 2


def test_a_part_that_finds_nothing_of_its_own_rests_and_is_tried_again() -> None:
    useful, idle = Sam(VOCAB), Fixed(EMPTY_TREE)
    merged = Merged([useful, idle])
    row = row_of(list(range(10, 50)))
    merged.begin(row)
    num_steps = 3 * TRIAL + 3 * REST
    for _ in range(num_steps):
        step(merged, [row], 3, cycle(40))
    assert TRIAL <= idle.num_proposed < num_steps / 2
    assert merged.ledgers[0].resting == 0


def test_in_a_batch_a_pass_counts_as_often_as_it_has_rows() -> None:
    idle = Fixed(EMPTY_TREE)
    merged = Merged([Sam(VOCAB), idle])
    rows = [row_of(list(range(10, 50)), id=i) for i in range(4)]
    for row in rows:
        merged.begin(row)
    for _ in range(TRIAL // 4 + REST // 4 - 1):
        step(merged, rows, 3, cycle(40))
    assert idle.num_proposed == TRIAL // 4


def test_an_ungated_part_never_rests() -> None:
    idle = Fixed(EMPTY_TREE)
    merged = Merged([Sam(VOCAB), idle], is_gated=False)
    row = row_of(list(range(10, 50)))
    merged.begin(row)
    for _ in range(2 * TRIAL):
        step(merged, [row], 3, cycle(40))
    assert idle.num_proposed == 2 * TRIAL


def test_who_earns_its_time_stays_and_rests_grow_with_failure() -> None:
    ledger = Ledger()
    for _ in range(20 * TRIAL):
        ledger.record(1, 1)
        ledger.seconds += 0.5
        ledger.judge(seconds_per_token=1.0)
        assert not ledger.resting
    rests = []
    for _ in range(9):
        ledger.resting = 0
        while not ledger.resting:
            ledger.record(1, 0)
            ledger.seconds += 0.5
            ledger.judge(seconds_per_token=1.0)
        rests.append(ledger.resting)
    assert rests[:3] == [REST, 2 * REST, 4 * REST]
    assert rests[-1] == LONGEST_REST


def test_drafters_are_made_by_name_with_options() -> None:
    target = target_of("t5")
    sam = drafters.create("sam", target, max_nodes=7)
    assert isinstance(sam, Sam)
    merged = drafters.create("copy+suffix_decoding+sam", target)
    assert isinstance(merged, Merged)
    assert len(merged.parts) == 3
    assert isinstance(drafters.create("merged", target, parts="copy+sad", is_gated=False), Merged)
    with pytest.raises(TypeError, match="no_such_option"):
        drafters.create("sam", target, no_such_option=1)
    with pytest.raises(ValueError, match="unknown drafter 'nonsense'"):
        drafters.create("copy+nonsense", target)
    with pytest.raises(ValueError, match="at least one"):
        Merged([])


def test_paths_that_begin_alike_share_nodes_and_parents_come_first() -> None:
    builder = TreeBuilder()
    a = builder.add(-1, 10, 0.5, "a")
    b = builder.add(a, 11, 0.4, "b")
    assert builder.add(-1, 10, 0.9, "again") == a
    c = builder.add(b, 12, 0.8, "c")
    assert len({a, b, c}) == 3
    tree = builder.build(2)
    tree.check()
    assert list(tree.tokens) == [10, 11]
    assert list(tree.scores or ()) == [0.9, 0.4]
    assert list(builder.build(9).scores or ()) == [0.9, 0.4, 0.4]
    assert EOS not in tree.tokens
