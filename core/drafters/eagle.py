"""Drafting with an autoregressive head on the target's hidden states (EAGLE, Li et al. 2401.15077; which nodes are
asked for more, by their chance of being accepted: EAGLE-2, 2406.16858)."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any, NamedTuple

import torch

from core.drafters.beam import Beam
from core.drafters.eagle_head import EagleHead
from core.drafters.eagle_places import EaglePlaces
from core.drafters.model_parts import ModelParts
from core.drafters.tree_drafting import TreeDrafter
from core.targets.base import PassOutput, Target
from core.types import DraftTree, Sequence, Verdict


class Window(NamedTuple):
    """The last places of a row: hidden states [W, hidden size] and the token that follows each. `length` is how many
    tokens the row had by then."""

    length: int
    hidden: torch.Tensor
    tokens: list[int]


class Eagle(TreeDrafter):
    """`model` is a folder with a trained `EagleHead`, or that head; `options` are those of `TreeDrafter`.

    A row is drafted for from its second pass on: its prompt's hidden states are not kept. Memory: the head, and the
    hidden states of `window` places for each row. Raises ValueError for a head of another target.
    """

    needs_hidden = True
    # Hidden states are found by the nodes' numbers in the tree that was verified.
    needs_logits = True

    def __init__(
        self,
        target: Target,
        model: str | Path | EagleHead,
        *,
        width: int = 4,
        num_children: int = 4,
        max_depth: int = 5,
        **options: Any,
    ) -> None:
        super().__init__(
            target,
            target.vocab_size,
            target.device,
            width=width,
            num_children=num_children,
            max_depth=max_depth,
            **options,
        )
        self._parts = ModelParts.of(target)
        if not isinstance(model, EagleHead):
            model = EagleHead.load(model, target.device, self._parts.output_weight.dtype)
        sizes = (model.config["hidden_size"], model.config["embedding_size"])
        if sizes != (self._parts.hidden_size, self._parts.embedding.shape[1]):
            raise ValueError(
                f"this head is for hidden states of {sizes[0]} and embeddings of {sizes[1]}, but the target has "
                f"{self._parts.hidden_size} and {self._parts.embedding.shape[1]}; train one for this target"
            )
        self.head = model
        self._windows: dict[int, Window] = {}

    def draft(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> Seq[Beam]:
        known = [
            (row, limit)
            for row, limit in zip(rows, max_nodes, strict=True)
            if row.id in self._windows and self._windows[row.id].length == len(row.tokens)
        ]
        beams = [Beam(row, limit, self.max_depth) for row, limit in known if limit > 0]
        if beams:
            windows = [self._windows[beam.row.id] for beam in beams]
            places = EaglePlaces(self.head, self._parts, beams, self.width)
            first = places.read_windows([w.hidden for w in windows], [w.tokens for w in windows])
            self.grow(beams, first, places.read_frontiers)
        return beams

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        super().observe(rows, trees, verdicts, output)
        assert output.hidden is not None, "the head reads hidden states"
        paths = [(-1, *verdict.path) for verdict in verdicts]
        places = [
            offset + 1 + node for offset, path in zip(output.offsets, paths, strict=False) for node in path
        ]
        hidden = output.hidden[torch.tensor(places, device=output.hidden.device)]
        states = hidden.to(self._parts.output_weight.dtype).split([len(path) for path in paths])
        for row, tree, verdict, new in zip(rows, trees, verdicts, states, strict=True):
            written = [*(tree.tokens[node] for node in verdict.path), verdict.bonus]
            self._windows[row.id] = self._followed(row, new, written)

    def end(self, row: Sequence) -> None:
        self._windows.pop(row.id, None)

    def _followed(self, row: Sequence, new: torch.Tensor, written: list[int]) -> Window:
        """The row's window with the newest places, if it has followed the row without a gap; else a fresh one."""
        old = self._windows.get(row.id)
        size = self.head.window
        if old is not None and old.length == len(row.tokens) - len(written) and len(written) < size:
            new = torch.cat([old.hidden, new])
            written = old.tokens + written
        # Cut by a copy: a view would keep all that it was cut from.
        return Window(len(row.tokens), new[-size:].clone(), written[-size:])
