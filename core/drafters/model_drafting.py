"""Draft trees from a model: passes over all rows of the batch, level by level.

Knows a draft model's rows and their beams. Does not know which model it is, nor where it keeps its rows.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch

from core.drafters.base import Drafter
from core.drafters.beam import Beam
from core.drafters.calibration import Calibration
from core.drafters.draft_slots import DraftSlots, Place
from core.drafters.pace import Pace
from core.drafters.ranking import draw, middle_of, rank, step_of
from core.drafters.trials import tried
from core.packing import PackedRow
from core.targets.base import PassOutput, Target
from core.types import EMPTY_TREE, DraftTree, Sequence, Verdict

#: Ranks and depths beyond these are estimated alike.
_MAX_RANK, _MAX_DEPTH = 3, 8


class ModelDrafter(Drafter):
    """Trees from the rows that `slots` looks after.

    At each level the likeliest `width` new nodes are read by the draft model, and up to `num_children` guesses are
    taken from each; down to `max_depth`. With width 1 each pass reads one token; the tree is a chain with leaves.
    Wider, a pass reads the whole tree again, which is small. With `is_paced`, levels that are not worth their pass
    are left out, and drafting rests while it costs more than it saves.

    Under the rule `speculative_sampling` tokens are drawn from the draft model's own distribution, which goes with
    them (Leviathan et al. 2211.17192); the tree's shape then depends on no token, or the rule would be biased. Else
    the draft model chooses with the target's noise (Gumbel coupling) and the likeliest alternatives stand beside.
    """

    def __init__(
        self,
        target: Target,
        slots: DraftSlots,
        *,
        width: int = 1,
        num_children: int = 2,
        max_depth: int = 8,
        is_paced: bool = True,
    ) -> None:
        if min(width, num_children, max_depth) < 1:
            raise ValueError(f"{width=}, {num_children=} and {max_depth=} must be at least 1")
        self.slots = slots
        self.width = width
        self.num_children = num_children
        self.max_depth = max_depth
        self.is_textbook = False
        self.pace = Pace(target.device, is_paced)
        self.calibration = Calibration(_prior)
        self.num_passes = 0
        draft = slots.target
        self._ends = target.eos_token_ids
        self._vocab_size = target.vocab_size
        self._shared_vocab = min(target.vocab_size, draft.vocab_size)
        suppressed = [token for token in target.suppressed_token_ids if token < self._shared_vocab]
        self._suppressed = torch.tensor(suppressed, dtype=torch.int64, device=draft.device)

    def read_verification(self, rule: str) -> None:
        self.is_textbook = rule == "speculative_sampling"

    def begin(self, row: Sequence) -> None:
        self.slots.begin(row)

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        self.pace.begin()
        beams: dict[int, Beam] = {}
        if not self.pace.rests and max(max_nodes) > 0:
            places = self.slots.places(rows)
            limits = {row.id: limit for row, limit in zip(rows, max_nodes, strict=True)}
            beams = {place.row.id: self._beam(place, limits[place.row.id]) for place in places}
            if any(beam.frontier for beam in beams.values()):
                self._grow(places, [beams[place.row.id] for place in places])
            self.pace.proposed()
        return [beams[row.id].build() if row.id in beams else EMPTY_TREE for row in rows]

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        for cell, accepted in tried(trees, verdicts):
            self.calibration.record(cell, accepted)
        self.slots.settle(rows)
        num_accepted = sum(len(verdict.path) for verdict in verdicts)
        self.pace.finish(num_accepted + len(rows), num_accepted)

    def end(self, row: Sequence) -> None:
        self.slots.end(row)

    # -- growing --------------------------------------------------------------------------------------

    def _beam(self, place: Place, limit: int) -> Beam:
        return Beam(place.row, limit, min(self.max_depth, self.slots.target.max_length - place.end))

    def _grow(self, places: Seq[Place], beams: Seq[Beam]) -> None:
        self.expand(self._read_ends(places, beams), beams)
        while sum(beam.reach for beam in beams) and self.pace.pays(sum(beam.reach for beam in beams)):
            self.expand(self._read_frontiers(places, beams), beams)
        for place, beam in zip(places, beams, strict=True):
            self.slots.wrote(place, beam.expanded_tree())

    def expand(self, logits: torch.Tensor, beams: Seq[Beam]) -> None:
        """Children of all frontiers, whose logits [sum of frontiers, V] stand one behind the other; then the
        frontiers move on."""
        logits = self._permitted(logits)
        nodes = [(beam, node) for beam in beams for node in beam.frontier]
        drawn = [m for m, (beam, _) in enumerate(nodes) if self._draws(beam)]
        for chosen in (drawn, [m for m in range(len(nodes)) if m not in set(drawn)]):
            if chosen:
                some = (
                    logits
                    if len(chosen) == len(nodes)
                    else logits[torch.tensor(chosen, device=logits.device)]
                )
                self._add_children(some, [nodes[m] for m in chosen], is_drawn=chosen is drawn)
        for beam in beams:
            # What is drawn must not bend the tree: there an end is a token like others.
            beam.advance(self.width, frozenset() if self._draws(beam) else self._ends)
        self.pace.passed()

    def _draws(self, beam: Beam) -> bool:
        return self.is_textbook and beam.row.params.temperature > 0

    def _add_children(self, logits: torch.Tensor, nodes: Seq[tuple[Beam, int]], *, is_drawn: bool) -> None:
        ranking = (draw if is_drawn else rank)(
            logits, [beam.spot(node) for beam, node in nodes], self.num_children
        )
        probs = None if ranking.probs is None else self._widened(ranking.probs)
        for m, (beam, parent) in enumerate(nodes):
            last = 1.0
            pairs = zip(ranking.tokens[m], ranking.confidences[m], strict=True)
            for place, (token, confidence) in enumerate(pairs):
                if confidence <= 0.0:
                    break
                cell = self._cell(beam, parent, place, confidence, is_drawn)
                # Siblings stay in the order in which they were drawn.
                last = min(last, self.calibration.estimate(cell))
                beam.add(parent, token, last, cell, None if probs is None else probs[m])

    def _cell(
        self, beam: Beam, parent: int, place: int, confidence: float, is_drawn: bool
    ) -> tuple[str, int, int]:
        """What an estimate hangs on."""
        place = min(place, _MAX_RANK)
        if is_drawn:
            return "drawn", place, min(beam.depth(parent), _MAX_DEPTH)
        kind = "sampled" if beam.row.params.temperature > 0 else "greedy"
        return kind, place, step_of(confidence)

    # -- passes ---------------------------------------------------------------------------------------

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

    def _permitted(self, logits: torch.Tensor) -> torch.Tensor:
        """Without tokens that the target does not have, or never chooses."""
        logits = logits[:, : self._shared_vocab]
        if len(self._suppressed):
            logits = logits.index_fill(-1, self._suppressed, -torch.inf)
        return logits

    def _widened(self, probs: torch.Tensor) -> torch.Tensor:
        """Distributions over the target's vocabulary."""
        missing = self._vocab_size - probs.shape[-1]
        return torch.nn.functional.pad(probs, (0, missing)) if missing else probs


def _prior(cell: tuple[str, int, int]) -> float:
    kind, place, step = cell
    if kind == "drawn":
        return (0.7, 0.15, 0.08, 0.04)[place]
    return 0.9 * middle_of(step)
