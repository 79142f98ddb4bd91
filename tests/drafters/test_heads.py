"""Heads on the target's hidden states: they read the right ones, and their trees follow the right paths."""

from __future__ import annotations

import random
from collections.abc import Sequence as Seq
from pathlib import Path

import pytest
import torch

from core import Engine, drafters
from core.budget import FixedBudget
from core.drafters.beam import Beam
from core.drafters.eagle import Eagle
from core.drafters.eagle_head import EagleHead
from core.drafters.eagle_places import EaglePlaces
from core.drafters.heads import Heads
from core.drafters.medusa_heads import MedusaHeads
from core.drafters.model_parts import ModelParts
from core.types import DraftTree, Sequence
from tests.core.models import target_of, word_tokenizer
from tests.core.test_identity import KINDS, SAMPLING, outcome, plain_outcome, requests, run_late
from tests.drafters.draft_models import eagle_head, medusa_heads
from tests.drafters.writing import row_of


class CheckedHeads(Heads):
    """The target's output projection of the hidden state says the pending token."""

    num_checked = 0

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        for row in rows:
            if row.id in self._seen:
                self.num_checked += 1
                length, hidden = self._seen[row.id]
                assert length == len(row.tokens)
                assert int(self._parts.logits(hidden).argmax()) == row.tokens[-1]
        trees = super().propose(rows, max_nodes)
        assert all(max(tree.depths(), default=0) <= self.heads.num_heads for tree in trees)
        return trees


class CheckedEagle(Eagle):
    """The target's output projection of a window's hidden states says the tokens that follow them."""

    num_checked = 0

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        for row in rows:
            window = self._windows.get(row.id)
            if window is not None:
                self.num_checked += 1
                said = self._parts.logits(window.hidden).argmax(-1).tolist()
                assert said == window.tokens == row.tokens[-len(said) :]
                assert len(said) <= self.head.window
        return super().propose(rows, max_nodes)


@pytest.mark.parametrize("kind", KINDS)
def test_heads_read_the_hidden_state_behind_the_last_token(kind: str) -> None:
    asked = requests(SAMPLING["greedy"], 5)
    target = target_of(KINDS[kind])
    checked = (
        CheckedHeads(target, medusa_heads(target, shares_output=True)),
        CheckedEagle(target, eagle_head(target), is_paced=False),
    )
    for drafter in checked:
        drafted = Engine(target, word_tokenizer(), drafter, max_rows=5, budget=FixedBudget(9))
        assert outcome(run_late(drafted, asked, random.Random(3))) == plain_outcome(KINDS[kind], "greedy")
        assert drafter.num_checked > 50
    assert not checked[0]._seen
    assert not checked[1]._windows


def test_a_tree_of_heads_is_the_likeliest_part_of_their_product() -> None:
    target = target_of("llama")
    heads = Heads(target, medusa_heads(target), num_candidates=3)
    row = row_of([5, 6, 7], tokens=[5, 6, 7])
    hidden = torch.randn(1, 32, dtype=torch.float64)
    heads._seen[row.id] = 3, hidden[0]
    (tree,) = heads.propose([row], [12])
    tree.check()
    best = heads.heads(hidden)[:, 0].topk(3).indices.tolist()
    for token, depth in zip(tree.tokens, tree.depths(), strict=True):
        assert token in best[depth - 1]
    assert tree.scores is not None
    assert list(tree.scores) == sorted(tree.scores, reverse=True)
    # A row that was written on without the heads looking has no state to go by.
    row.tokens.append(8)
    assert not len(heads.propose([row], [12])[0])


def test_an_eagle_tree_says_what_the_head_says_about_each_path_alone() -> None:
    target = target_of("llama")
    parts, head = ModelParts.of(target), eagle_head(target, window=4, num_layers=2)
    sizes = (4, 1, 3)
    windows = [torch.randn(size, 32, dtype=torch.float64) for size in sizes]
    tokens = [[10 + i for i in range(size)] for size in sizes]
    beams = [Beam(row_of([5], id=i), 99, 9) for i in range(3)]
    places = EaglePlaces(head, parts, beams, width=2)
    first = places.read_windows(windows, tokens)
    paths: list[dict[int, list[int]]] = [{-1: []} for _ in beams]
    checked = 0
    for level in range(3):
        for b, beam in enumerate(beams):
            new = []
            for parent in beam.frontier:
                for child in range(2):
                    node = beam.add(parent, 20 + 7 * level + 3 * child + b, 0.9, None)
                    assert node is not None
                    paths[b][node] = [*paths[b][parent], beam.tokens[node]]
                    new.append(node)
            # The rows differ in how many nodes they go on with, and from which parent.
            beam.frontier = new[-1 - (b + level) % 2 :]
        logits = places.read_frontiers()
        nodes = [(b, node) for b, beam in enumerate(beams) for node in beam.frontier]
        for (b, node), here in zip(nodes, logits, strict=True):
            assert torch.allclose(here, alone(head, parts, windows[b], tokens[b], paths[b][node]), atol=1e-12)
            checked += 1
    assert checked > 12
    for b in range(3):
        assert torch.allclose(first[b], alone(head, parts, windows[b], tokens[b], []), atol=1e-12)


def alone(
    head: EagleHead, parts: ModelParts, window: torch.Tensor, tokens: list[int], path: list[int]
) -> torch.Tensor:
    """Logits behind a path, place after place, without a cache or a mask made for trees."""
    hidden = window
    # As in drafting: what the window's places saw is settled before the path begins.
    _, kept = head(hidden[None], parts.embed(torch.tensor([tokens])))
    out = head(hidden[None], parts.embed(torch.tensor([tokens])))[0][0, -1]
    for i, token in enumerate(path):
        total = kept[0][0].shape[2] + 1
        mask = torch.zeros(1, 1, total, dtype=torch.bool)
        mask[..., -head.window :] = True
        positions = torch.tensor([[len(tokens) + i]])
        state, kept = head(out[None, None], parts.embed(torch.tensor([[token]])), mask, positions, kept)
        out = state[0, 0]
    return parts.logits(out)


def test_trained_parts_are_saved_and_refused_by_name(tmp_path: Path) -> None:
    target = target_of("llama")
    medusa_heads(target).save(tmp_path / "heads")
    eagle_head(target).save(tmp_path / "eagle")
    loaded = drafters.create("heads", target, model=tmp_path / "heads")
    assert isinstance(loaded, Heads)
    assert loaded.heads.output is not None
    assert torch.equal(loaded.heads.output[0], ModelParts.of(target).output_weight)
    assert isinstance(drafters.create("eagle", target, model=tmp_path / "eagle"), Eagle)
    with pytest.raises(ValueError, match="holds eagle_head, not medusa_heads"):
        drafters.create("heads", target, model=tmp_path / "eagle")
    with pytest.raises(ValueError, match=r"holds no config\.json"):
        drafters.create("eagle", target, model=tmp_path)
    with pytest.raises(
        ValueError, match="for hidden states of 16 and 96 tokens, but the target has 32 and 96"
    ):
        Heads(target, MedusaHeads(16, 96, 2))
    with pytest.raises(ValueError, match="for hidden states of 16 and embeddings of 16"):
        Eagle(target, EagleHead(16))
