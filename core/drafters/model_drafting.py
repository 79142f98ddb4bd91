"""Draft trees from a model: passes over all rows of the batch, level by level.

Knows a draft model's rows and their beams. Does not know which model it is, nor where it keeps its rows.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import torch

from core.drafters.beam import Beam
from core.drafters.draft_slots import DraftSlots, Place
from core.drafters.tree_drafting import TreeDrafter
from core.packing import PackedRow
from core.targets.base import PassOutput, Target
from core.types import DraftTree, Sequence, Verdict


class ModelDrafter(TreeDrafter):
    """Trees from the rows that `slots` looks after; `options` are those of `TreeDrafter`.

    With width 1 each pass reads one token of each row, and the tree is a chain with leaves. Wider, a pass reads the
    whole tree again, which is small.
    """

    def __init__(self, target: Target, slots: DraftSlots, **options: Any) -> None:
        draft = slots.target
        super().__init__(target, draft.vocab_size, draft.device, **options)
        self.slots = slots
        self.num_passes = 0

    def begin(self, row: Sequence) -> None:
        self.slots.begin(row)

    def draft(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> Seq[Beam]:
        places = self.slots.places(rows)
        limits = {row.id: limit for row, limit in zip(rows, max_nodes, strict=True)}
        beams = [self._beam(place, limits[place.row.id]) for place in places]
        if any(beam.frontier for beam in beams):
            self.grow(beams, self._read_ends(places, beams), lambda: self._read_frontiers(places, beams))
            for place, beam in zip(places, beams, strict=True):
                self.slots.wrote(place, beam.expanded_tree())
        return beams

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        self.slots.settle(rows)
        super().observe(rows, trees, verdicts, output)

    def end(self, row: Sequence) -> None:
        self.slots.end(row)

    def _beam(self, place: Place, limit: int) -> Beam:
        return Beam(place.row, limit, min(self.max_depth, self.slots.target.max_length - place.end))

    def _read_ends(self, places: Seq[Place], beams: Seq[Beam]) -> torch.Tensor:
        """Logits [beams with a frontier, V] behind the pending tokens; all rows are read up to there."""
        output = self._forward([PackedRow(place.length, place.certain) for place in places])
        ends = [len(place.certain) - 1 for place in places]
        return self._picked(
            output, [[end] * len(beam.frontier) for end, beam in zip(ends, beams, strict=True)]
        )

    def _read_frontiers(self, places: Seq[Place], beams: Seq[Beam]) -> torch.Tensor:
        """Logits [sum of frontiers, V] behind the frontiers' nodes."""
        rows: list[PackedRow] = []
        wanted: list[list[int]] = []
        for place, beam in zip(places, beams, strict=True):
            beam.expanded += beam.frontier
            if self.width == 1:
                # A chain's nodes are read once each; a row without a frontier repeats its pending token.
                node = beam.frontier[0] if beam.frontier else None
                length = place.end - 1 if node is None else place.end - 1 + len(beam.expanded)
                rows.append(PackedRow(length, [place.certain[-1] if node is None else beam.tokens[node]]))
                wanted.append([0] * len(beam.frontier))
            else:
                rows.append(PackedRow(place.end - 1, place.certain[-1:], beam.expanded_tree()))
                first = 1 + len(beam.expanded) - len(beam.frontier)
                wanted.append(list(range(first, 1 + len(beam.expanded))))
        return self._picked(self._forward(rows), wanted)

    def _forward(self, rows: Seq[PackedRow]) -> PassOutput:
        draft = self.slots.target
        self.num_passes += 1
        return draft.forward(draft.pack(rows))

    def _picked(self, output: PassOutput, wanted: Seq[Seq[int]]) -> torch.Tensor:
        """Logits [M, V] of some queries of each row."""
        places = [offset + t for offset, some in zip(output.offsets, wanted, strict=False) for t in some]
        if len(places) == len(output.logits):
            return output.logits
        return output.logits[torch.tensor(places, device=output.logits.device)]
