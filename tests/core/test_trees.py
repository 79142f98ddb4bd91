"""Any tree, any acceptance, any order of rows coming and going: the cache is that of plain decoding."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.packing import PackedRow, Pass, pack
from core.targets.base import Target
from core.types import DraftTree
from core.verification import walk
from tests.core.models import repetitive, target_of
from tests.core.strategies import WORDS, path_to, trees, trees_and_paths


@given(tree=trees(), num_nodes=st.integers(0, 12))
def test_a_prefix_keeps_the_first_nodes_and_is_a_tree(tree: DraftTree, num_nodes: int) -> None:
    cut = tree.prefix(num_nodes)
    cut.check()
    assert len(cut) == min(num_nodes, len(tree))
    for part, whole in zip(vars(cut).values(), vars(tree).values(), strict=True):
        assert part is None or list(part) == list(whole[: len(cut)])


@given(tree=trees(), max_depth=st.integers(0, 12))
def test_limiting_the_depth_keeps_exactly_the_shallow_nodes_and_their_paths(
    tree: DraftTree, max_depth: int
) -> None:
    def paths(whole: DraftTree, limit: int) -> list[list[tuple[int, str]]]:
        nodes = [path_to(whole, node) for node in range(len(whole))]
        return [[(whole.tokens[i], whole.origins[i]) for i in path] for path in nodes if len(path) <= limit]

    cut = tree.limit_depth(max_depth)
    cut.check()
    assert paths(cut, 99) == paths(tree, max_depth)
    assert cut.depths() == [depth for depth in tree.depths() if depth <= max_depth]
    kept = [tree.scores[i] for i, depth in enumerate(tree.depths()) if depth <= max_depth]
    assert list(cut.scores) == kept


@given(tree=trees(words=st.integers(0, 2)), data=st.data())
def test_the_walk_takes_the_longest_path_of_matches(tree: DraftTree, data: st.DataObject) -> None:
    chosen = [data.draw(st.integers(0, 2)) for _ in range(1 + len(tree))]
    verdict = walk(tree, chosen)
    node = -1
    for step in verdict.path:
        assert tree.parents[step] == node
        assert tree.tokens[step] == chosen[node + 1]
        node = step
    assert verdict.bonus == chosen[node + 1]
    assert not any(
        parent == node and token == verdict.bonus
        for parent, token in zip(tree.parents, tree.tokens, strict=True)
    )


@st.composite
def packed_rows(draw: st.DrawFn) -> PackedRow:
    certain = draw(st.lists(WORDS, min_size=1, max_size=4))
    return PackedRow(draw(st.integers(0, 9)), certain, draw(trees()))


def batch_of(rows: list[PackedRow], padding: int) -> Pass:
    num_queries = max(row.num_queries for row in rows) + padding
    key_length = max(row.length for row in rows) + num_queries + padding
    return pack(
        rows,
        num_queries=num_queries,
        key_length=key_length,
        dtype=torch.float32,
        device=torch.device("cpu"),
    )


def seen_slots(row: PackedRow, query: int) -> set[int]:
    """By the definition: what is committed, the certain tokens before, the ancestors, and itself."""
    certain = len(row.tokens)
    seen = set(range(row.length))
    if query < certain:
        return seen | {row.length + u for u in range(query + 1)}
    path = path_to(row.tree, query - certain)
    return seen | {row.length + u for u in range(certain)} | {row.length + certain + node for node in path}


def position(row: PackedRow, query: int) -> int:
    certain = len(row.tokens)
    depth = len(path_to(row.tree, query - certain)) if query >= certain else query - certain + 1
    return row.length + certain - 1 + depth


@given(rows=st.lists(packed_rows(), min_size=1, max_size=3), padding=st.integers(0, 3))
def test_every_query_sees_its_ancestors_and_the_committed_slots_only(
    rows: list[PackedRow], padding: int
) -> None:
    batch = batch_of(rows, padding)
    visible = (batch.attention_mask() == 0).expand(len(rows), 1, batch.tokens.shape[1], batch.key_length)
    for b, row in enumerate(rows):
        for query in range(row.num_queries):
            assert set(visible[b, 0, query].nonzero().flatten().tolist()) == seen_slots(row, query)
            assert batch.positions[b, query] == position(row, query)
        assert batch.tokens[b, : row.num_queries].tolist() == [*row.tokens, *row.tree.tokens]
    assert visible.any(-1).all(), "a padding query that sees nothing would become NaN"


@given(
    rows=st.lists(packed_rows(), min_size=1, max_size=3),
    padding=st.integers(0, 2),
    window=st.integers(1, 8),
)
def test_a_window_hides_what_is_too_many_positions_back(
    rows: list[PackedRow], padding: int, window: int
) -> None:
    batch = batch_of(rows, padding)
    visible = batch.sliding_mask(window) == 0
    for b, row in enumerate(rows):
        at = {slot: slot for slot in range(row.length)}
        at |= {row.length + query: position(row, query) for query in range(row.num_queries)}
        for query in range(row.num_queries):
            near = {s for s in seen_slots(row, query) if at[s] > position(row, query) - window}
            assert set(visible[b, 0, query].nonzero().flatten().tolist()) == near


class Rows:
    """Rows in a target, driven by hand: whatever path is told to be accepted is committed."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.prompts: list[list[int]] = []
        self.tokens: list[list[int]] = []
        self.lengths: list[int] = []

    def join(self, prompts: list[list[int]]) -> None:
        self.lengths += self.target.join(len(self.tokens), prompts)
        self.tokens += [self.target.start_tokens(prompt) for prompt in prompts]
        self.prompts += prompts

    def leave(self, slot: int) -> None:
        last = len(self.tokens) - 1
        self.target.leave(slot, last, self.lengths[last])
        for column in (self.prompts, self.tokens, self.lengths):
            column[slot] = column[last]
            column.pop()

    def turn(self, drafts: list[tuple[DraftTree, tuple[int, ...]]], bonus: int) -> None:
        rows = zip(self.lengths, self.tokens, drafts, strict=True)
        packed = [PackedRow(length, tokens[-1:], tree) for length, tokens, (tree, _) in rows]
        self.target.forward(self.target.pack(packed))
        for slot, (tree, path) in enumerate(drafts):
            self.target.commit(slot, self.lengths[slot] + 1, path)
            self.lengths[slot] += 1 + len(path)
            self.tokens[slot] = [*self.tokens[slot], *(tree.tokens[node] for node in path), bonus]

    def committed(self, slot: int) -> torch.Tensor:
        return self.target.cache.data[:, :, slot, :, : self.lengths[slot]].clone()


@pytest.mark.parametrize("family", ["llama", "mistral", "t5", "bart", "mbart"])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
@torch.inference_mode()
def test_the_cache_after_any_acceptance_is_the_cache_of_plain_decoding(
    family: str, data: st.DataObject
) -> None:
    rows = Rows(TARGETS.setdefault(family, target_of(family)))
    plain = Rows(TARGETS.setdefault(family + " plain", target_of(family)))
    prompts = st.lists(WORDS, min_size=1, max_size=12)
    rows.join(data.draw(st.lists(prompts, min_size=1, max_size=3)))
    for _ in range(data.draw(st.integers(1, 5))):
        change = data.draw(st.sampled_from(["turn", "turn", "join", "leave"]))
        if change == "join" and len(rows.tokens) < 5:
            rows.join(data.draw(st.lists(prompts, min_size=1, max_size=2)))
        elif change == "leave" and len(rows.tokens) > 1:
            rows.leave(data.draw(st.integers(0, len(rows.tokens) - 1)))
        else:
            rows.turn([data.draw(trees_and_paths()) for _ in rows.tokens], data.draw(WORDS))
    for slot, (prompt, tokens) in enumerate(zip(rows.prompts, rows.tokens, strict=True)):
        plain.join([prompt])
        while plain.lengths[0] < rows.lengths[slot]:
            plain.turn([(DraftTree(), ())], tokens[len(plain.tokens[0])])
        assert plain.tokens[0] == tokens
        torch.testing.assert_close(rows.committed(slot), plain.committed(0), rtol=0, atol=1e-9)
        plain.leave(0)
    for target in (rows, plain):
        while target.tokens:
            target.leave(0)


#: Targets live on between examples, as they do between requests.
TARGETS: dict[str, Target] = {}


@torch.inference_mode()
def test_growing_the_cache_keeps_what_is_committed() -> None:
    rows = Rows(target_of("llama"))
    rows.join([repetitive(20, seed=1)])
    before = rows.committed(0)
    rows.join([repetitive(120, seed=2), repetitive(3, seed=3)])
    assert rows.target.cache.capacity >= 120
    assert torch.equal(rows.committed(0), before)
