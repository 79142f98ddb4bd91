"""Trees of the copy drafter: whole texts, edits and repetitions cost few passes."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from hypothesis import given, settings
from hypothesis import strategies as st

from core.drafters.best_first import Level, learn
from core.drafters.calibration import Calibration
from core.drafters.copy import Copy
from core.types import DraftTree, Sequence, Verdict
from tests.drafters.copying import TOKENS, passes, write
from tests.drafters.writing import EOS, NO_OUTPUT, row_of

SOURCE = list(range(100, 130))


def corrected(source: Seq[int]) -> list[int]:
    """A replacement, an insertion and a deletion, well apart."""
    out = list(source)
    out[4] = 904
    out.insert(12, 912)
    del out[21]
    return [*out, EOS]


def aligned() -> Copy:
    return Copy(is_aligned=True, eos_token_ids=frozenset({EOS}))


def test_a_text_that_is_copied_whole_costs_one_pass() -> None:
    assert passes(aligned(), row_of(SOURCE), [*SOURCE, EOS]) == 1


def test_each_edit_costs_one_pass_once_edits_are_known_to_happen() -> None:
    copy = aligned()
    taken = []
    for i in range(5):
        source = list(range(1000 + 100 * i, 1030 + 100 * i))
        taken.append(passes(copy, row_of(source, id=i), corrected(source)))
    assert taken[0] <= 1 + 3 + 1
    assert taken[2:] == [1 + 3] * 3


def misspelt(i: int) -> tuple[list[int], list[int]]:
    """A text of its own with the same three mistakes as all others, and its correction."""
    fresh = iter(range(1000 + 100 * i, 1100 + 100 * i))
    own = [[next(fresh) for _ in range(length)] for length in (6, 8, 7, 5)]
    source = [*own[0], 10, 11, 12, *own[1], 20, 21, *own[2], 30, 31, 32, *own[3]]
    return source, [*own[0], 10, 911, 12, *own[1], 20, 920, 21, *own[2], 30, 32, *own[3], EOS]


def test_repeated_edits_soon_cost_no_pass_at_all() -> None:
    copy = aligned()
    taken = []
    for i in range(8):
        source, output = misspelt(i)
        taken.append(passes(copy, row_of(source, id=i), output, limit=127))
    assert taken[0] >= 1 + 3
    assert taken[1] <= 3, taken
    assert taken[5:] == [1, 1, 1]


def test_a_prediction_and_a_source_are_copied_from_too() -> None:
    copy = Copy(is_aligned=False, eos_token_ids=frozenset({EOS}))
    assert passes(copy, row_of([7], prediction=SOURCE), [*SOURCE, EOS]) == 1
    quoted = [50, 51, *SOURCE[5:25], 52, EOS]
    assert passes(copy, row_of([7], sources=[SOURCE]), quoted) <= 6


@given(
    prompt=st.lists(TOKENS, min_size=1, max_size=20),
    source=st.lists(TOKENS, max_size=20),
    prediction=st.one_of(st.none(), st.lists(TOKENS, max_size=20)),
    outputs=st.lists(st.lists(TOKENS, max_size=20), min_size=1, max_size=4),
    limit=st.integers(1, 20),
    is_aligned=st.booleans(),
)
@settings(deadline=None, max_examples=150)
def test_trees_are_valid_and_best_first_whatever_is_written(
    prompt: list[int],
    source: list[int],
    prediction: list[int] | None,
    outputs: list[list[int]],
    limit: int,
    is_aligned: bool,
) -> None:
    copy = Copy(is_aligned=is_aligned, eos_token_ids=frozenset({EOS}))
    for id, output in enumerate(outputs):
        row = row_of(prompt, sources=[source], prediction=prediction, id=id)
        count = passes(copy, row, [*output, EOS], limit)
        assert count <= len(output) + 1
    assert not copy._rows


def test_a_row_without_room_gets_an_empty_tree() -> None:
    copy = aligned()
    row = row_of(SOURCE)
    copy.begin(row)
    assert len(copy.propose([row], [0])[0]) == 0
    assert len(copy.propose([row], [1])[0]) == 1


def test_only_levels_that_were_asked_in_vain_count_as_misses() -> None:
    calibration = Calibration(lambda key: 0.5)
    first, second, third = (
        Level((name,), ((token, 1.0, None),)) for name, token in (("a", 5), ("b", 6), ("c", 7))
    )
    tree = DraftTree([5, 6, 7], [-1, -1, -1], origins=[[first, second, third]] * 3)
    learn(calibration, tree, Verdict((1,), 9))
    assert calibration.estimate(("a",)) < 0.5 < calibration.estimate(("b",))
    assert calibration.estimate(("c",)) == 0.5


def grown_and_taken(copy: Copy, rows: Seq[Sequence], outputs: Seq[Seq[int]], worth: float) -> tuple[int, int]:
    """Nodes in the trees of one pass, and how many of them a budget took that wants none below `worth`."""
    grown = copy.propose(rows, [127] * len(rows))
    trees = [tree.prefix(sum(score >= worth for score in tree.scores or ())) for tree in grown]
    verdicts = [write(row, tree, output) for row, tree, output in zip(rows, trees, outputs, strict=True)]
    copy.observe(rows, trees, verdicts, NO_OUTPUT)
    return sum(map(len, grown)), sum(map(len, trees))


def a_batch(copy: Copy) -> tuple[list[Sequence], list[list[int]]]:
    """Three texts that are copied almost whole beside nine with every third token replaced."""
    sources = [list(range(1000 * i, 1000 * i + 400)) for i in range(1, 13)]
    rows = [row_of(source, id=i) for i, source in enumerate(sources)]
    every = [40, 40, 40, *[3] * 9]
    outputs = [
        [-token if place % step == 2 else token for place, token in enumerate(source)]
        for source, step in zip(sources, every, strict=True)
    ]
    for row in rows:
        copy.begin(row)
    return rows, outputs


def test_rows_are_not_grown_as_wide_as_their_surest_neighbour() -> None:
    copy = aligned()
    rows, outputs = a_batch(copy)
    counts = [grown_and_taken(copy, rows, outputs, worth=0.2) for _ in range(12)][4:]
    grown, taken = (sum(column) for column in zip(*counts, strict=True))
    assert 0 < grown <= 3 * taken


def test_trees_soon_go_as_far_as_nodes_are_worth_it() -> None:
    copy = aligned()
    rows, outputs = a_batch(copy)
    for _ in range(8):
        grown_and_taken(copy, rows, outputs, worth=0.3)
    few, _ = grown_and_taken(copy, rows, outputs, worth=0.03)
    counts = [grown_and_taken(copy, rows, outputs, worth=0.03) for _ in range(4)]
    grown, taken = counts[-1]
    assert grown > taken > 2 * few, "a tree that is taken whole is grown further"
