"""A cascade of drafters: statistics draft for the draft model, which drafts for the target (CS Drafting, Chen et al.
2312.11462).

Vertically, a table of trigrams guesses what the draft model will say; one pass of the draft model checks several of
these guesses, so that it need not run once for each token. Horizontally, the table goes on behind what the draft model
drafted: later tokens are less likely to count, and come from where they cost nothing. The table learns from the
target's own logits, as the drafter `adaptive_trigram` does.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

import torch

from core.drafters.adaptive_trigram import AdaptiveTrigram
from core.drafters.beam import Beam
from core.drafters.draft_model import DraftModel
from core.drafters.draft_slots import Place
from core.drafters.ranking import Ranking, Spot, step_of
from core.packing import PackedRow
from core.targets.base import PassOutput, Target
from core.types import DraftTree, Sequence, Verdict

#: Successors of the table that are worth a leaf.
_NUM_SUCCESSORS = 2


class Cascade(DraftModel):
    """`num_guesses` tokens of the table are checked by each pass of the draft model, down to `max_depth`; `num_behind`
    follow unchecked by it, except where tokens are drawn for the rule `speculative_sampling`. 0 leaves either out.

    `options` are those of `DraftModel`, but for `width`: it drafts a chain with leaves. Memory: a draft model's and a
    trigram table's (see `AdaptiveTrigram`).
    """

    needs_logits = True

    def __init__(
        self,
        target: Target,
        model: str | Path | Target,
        *,
        num_guesses: int = 3,
        num_behind: int = 3,
        **options: Any,
    ) -> None:
        if min(num_guesses, num_behind) < 0:
            raise ValueError(f"{num_guesses=} and {num_behind=} must be at least 0")
        if options.get("width", 1) != 1:
            raise ValueError(f"width={options['width']}: a cascade drafts chains; leave width out")
        super().__init__(target, model, **options)
        self._num_guesses = num_guesses
        self._num_behind = num_behind
        self._statistics = AdaptiveTrigram(target.vocab_size, eos_token_ids=target.eos_token_ids)

    def begin(self, row: Sequence) -> None:
        super().begin(row)
        self._statistics.begin(row)

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        # It drafts nothing here, but notes behind which tokens it will see logits.
        self._statistics.propose(rows, [0] * len(rows))
        return super().propose(rows, max_nodes)

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        super().observe(rows, trees, verdicts, output)
        bare = [DraftTree(tree.tokens, tree.parents) for tree in trees]
        self._statistics.observe(rows, bare, verdicts, output)

    def end(self, row: Sequence) -> None:
        super().end(row)
        self._statistics.end(row)

    def draft(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> Seq[Beam]:
        places = self.slots.places(rows)
        limits = {row.id: limit for row, limit in zip(rows, max_nodes, strict=True)}
        room = self.slots.target.max_length - 1
        beams = [
            Beam(place.row, limits[place.row.id], min(self.max_depth, room - place.end)) for place in places
        ]
        if not any(beam.frontier for beam in beams):
            return beams
        is_first = True
        while is_first or (self._reach(beams) and self.pace.pays(self._reach(beams))):
            self._advance(places, beams, is_first)
            is_first = False
        for place, beam in zip(places, beams, strict=True):
            self.slots.wrote(place, beam.expanded_tree())
            self._go_on(beam)
        return beams

    def _reach(self, beams: Seq[Beam]) -> float:
        return sum(beam.reach for beam in beams)

    def _advance(self, places: Seq[Place], beams: Seq[Beam], is_first: bool) -> None:
        """One pass of the draft model: from each row's tip on, as far as the table's guesses were right."""
        packed: list[PackedRow] = []
        for place, beam in zip(places, beams, strict=True):
            certain, length = place.certain, place.length
            if not is_first:
                # Behind what was read; a row that is done reads its pending token there, where nobody looks.
                length = place.end + len(beam.expanded)
                certain = [beam.tokens[node] for node in beam.frontier] or place.certain[-1:]
                beam.expanded += beam.frontier
            guesses = self._guesses(beam)
            packed.append(PackedRow(length, certain, DraftTree(guesses, range(-1, len(guesses) - 1))))
        wanted = [
            range(len(row.tokens) - 1, row.num_queries) if beam.frontier else range(0)
            for row, beam in zip(packed, beams, strict=True)
        ]
        logits = self.permitted(self._picked(self._forward(packed), wanted))
        start = 0
        ends: list[tuple[Beam, Seq[int], int]] = []
        for beam, row, some in zip(beams, packed, wanted, strict=True):
            if beam.frontier:
                ends.append((beam, row.tree.tokens, start))
                start += len(some)
        for is_drawn in (False, True):
            self._walk([end for end in ends if self.draws(end[0]) == is_drawn], logits, is_drawn)
        self.pace.passed()

    def _guesses(self, beam: Beam) -> list[int]:
        """What the table thinks follows a row's tip; as much as the draft model may still check."""
        if not beam.frontier:
            return []
        room = min(beam.max_depth, beam.limit) - beam.depth(beam.tip) - 1
        guesses: list[int] = []
        before, last = _context(beam)
        while len(guesses) < min(self._num_guesses, room):
            entry, _ = self._statistics.table.lookup(before, last)
            if not entry or last in self.end_tokens:
                break
            before, last = last, entry[0][0]
            guesses.append(last)
        return guesses

    def _walk(self, ends: Seq[tuple[Beam, Seq[int], int]], logits: torch.Tensor, is_drawn: bool) -> None:
        """What the draft model says at each row's tip and behind the guesses that it shares. Of each row: its beam,
        its guesses and the place of its first logits."""
        if not ends:
            return
        spots = [
            Spot(beam.row.params, beam.row.position + beam.depth(beam.tip) + j)
            for beam, guesses, _ in ends
            for j in range(len(guesses) + 1)
        ]
        places = [start + j for _, guesses, start in ends for j in range(len(guesses) + 1)]
        some = logits if len(places) == len(logits) else logits[torch.tensor(places, device=logits.device)]
        ranking = self.rank(spots, some, is_drawn=is_drawn)
        m = 0
        for beam, guesses, _ in ends:
            self._follow(beam, guesses, ranking, m)
            m += len(guesses) + 1

    def _follow(self, beam: Beam, guesses: Seq[int], ranking: Ranking, m: int) -> None:
        """Move the tip on, one token further than the guesses were right; the ranking's places begin at `m`."""
        for j in range(len(guesses) + 1):
            node = self.add(beam, beam.tip, ranking, m + j)
            beam.frontier = []
            if node is None:
                return
            beam.tip = node
            is_end = beam.tokens[node] in self.end_tokens and ranking.probs is None
            if is_end or beam.depth(node) >= min(beam.max_depth, beam.limit):
                return
            if j == len(guesses) or beam.tokens[node] != guesses[j]:
                beam.frontier = [node]
                return
            beam.expanded.append(node)

    def _go_on(self, beam: Beam) -> None:
        """Let the table have the last places. What was drawn must not bend the tree, so nothing follows it."""
        if self.draws(beam):
            return
        for _ in range(self._num_behind):
            before, last = _context(beam)
            entry, _ = self._statistics.table.lookup(before, last)
            if not entry or last in self.end_tokens:
                return
            tip = None
            for place, (token, probability) in enumerate(entry[:_NUM_SUCCESSORS]):
                cell = ("table", place, step_of(probability))
                node = beam.add(beam.tip, token, self.calibration.estimate(cell), cell)
                tip = node if place == 0 else tip
            if tip is None:
                return
            beam.tip = tip


def _context(beam: Beam) -> tuple[int, int]:
    """The last two tokens up to a row's tip."""
    if beam.tip < 0:
        tokens = beam.row.tokens
        return tokens[-2] if len(tokens) > 1 else -1, tokens[-1]
    parent = beam.parent(beam.tip)
    return beam.row.tokens[-1] if parent < 0 else beam.tokens[parent], beam.tokens[beam.tip]
