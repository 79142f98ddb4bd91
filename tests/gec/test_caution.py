"""The pointer of the caution bonus depends on the token path alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.gec.caution import DOUBT, Caution, Pointer
from core.types import DraftTree

TOKENS = st.integers(0, 5)
NOTHING = DraftTree()


def fresh(source: list[int], path: list[int]) -> Pointer:
    state = Pointer()
    for token in path:
        state = state.step(source, token)
    return state


@st.composite
def trees(draw: st.DrawFn) -> DraftTree:
    tokens = draw(st.lists(TOKENS, max_size=12))
    return DraftTree(tokens, [draw(st.integers(-1, i - 1)) for i in range(len(tokens))])


@given(source=st.lists(TOKENS, max_size=15), path=st.lists(TOKENS, max_size=15), tree=trees())
@settings(deadline=None)
def test_every_node_has_the_state_of_a_fresh_run_over_its_path(
    source: list[int], path: list[int], tree: DraftTree
) -> None:
    states = Caution(source, (9,), 1.0).states([2, *path], tree)
    assert states[0] == fresh(source, path)
    for node in range(len(tree)):
        branch: list[int] = []
        at = node
        while at >= 0:
            branch.append(tree.tokens[at])
            at = tree.parents[at]
        assert states[1 + node] == fresh(source, path + branch[::-1])


@given(source=st.lists(TOKENS, max_size=10), paths=st.lists(st.lists(TOKENS, max_size=10), max_size=6))
def test_the_cache_of_states_never_changes_an_answer(source: list[int], paths: list[list[int]]) -> None:
    caution = Caution(source, (9,), 1.0)
    for path in paths:
        for end in range(len(path) + 1):
            assert caution.states([2, *path[:end]], NOTHING) == [fresh(source, path[:end])]


def test_the_copied_token_gets_the_bonus_and_the_end_token_at_the_end() -> None:
    caution = Caution([3, 4], (9,), 2.5)
    out = caution.apply(torch.zeros(3, 10), [2], DraftTree([3, 4], [-1, 0]), None)
    assert [row.nonzero().flatten().tolist() for row in out] == [[3], [4], [9]]
    assert out.max() == 2.5


def test_the_input_logits_are_left_alone() -> None:
    logits = torch.zeros(1, 10)
    Caution([3], (9,), 1.0).apply(logits, [2], NOTHING, None)
    assert not logits.any()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ([1, 2], [3]),  # copied so far
        ([1, 9], []),  # just left the source
        ([1, 9, 3, 4], [5]),  # 9 replaced 2, and the copy went on
        ([1, 9, 2, 3], [4]),  # 9 came in addition
        ([1, 4], []),  # 2 and 3 may have gone
        ([1, 4, 5], [6]),  # they had
    ],
)
def test_the_pointer_finds_its_way_back_after_an_edit(path: list[int], expected: list[int]) -> None:
    source = [1, 2, 3, 4, 5, 6, 7]
    caution = Caution(source, (0,), 1.0)
    assert list(caution.expected(fresh(source, path))) == expected


def test_below_zero_copying_has_a_price() -> None:
    out = Caution([3, 4], (9,), -1.5).apply(torch.zeros(1, 10), [2], NOTHING, None)
    assert out[0].tolist() == [-1.5 if token == 3 else 0.0 for token in range(10)]


def test_a_doubted_token_pays_for_being_copied() -> None:
    out = Caution([3, 4, 5], (9,), 1.5, doubted={1}).apply(
        torch.zeros(4, 10), [2], DraftTree([3, 4, 5], [-1, 0, 1]), None
    )
    assert [float(out[row, token]) for row, token in enumerate((3, 4, 5, 9))] == [1.5, DOUBT, 1.5, 1.5]
