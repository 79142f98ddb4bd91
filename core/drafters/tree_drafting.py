"""Draft trees grown level by level: whoever can say what follows some nodes drafts with this.

Knows beams, rankings and estimates. Does not know where logits come from.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from collections.abc import Sequence as Seq

import torch

from core.drafters.base import Drafter
from core.drafters.beam import Beam
from core.drafters.calibration import Calibration
from core.drafters.pace import Pace
from core.drafters.ranking import Ranking, Spot, draw, middle_of, rank, step_of
from core.drafters.trials import tried
from core.targets.base import PassOutput, Target
from core.types import EMPTY_TREE, DraftTree, Sequence, Verdict

#: Ranks and depths beyond these are estimated alike.
_MAX_RANK, _MAX_DEPTH = 3, 8


class TreeDrafter(Drafter):
    """At each level the likeliest `width` new nodes are asked for what follows them, and up to `num_children` guesses
    are taken from each; down to `max_depth`. With `is_paced`, levels that are not worth their pass are left out.

    Under the rule `speculative_sampling` tokens are drawn from the draft model's own distribution, which goes with
    them (Leviathan et al. 2211.17192). A node's place in the tree then hangs on no token at its place or below, or
    the rule would be biased: estimates go by depth and rank alone, and an end token is one like others. Else the draft
    model chooses with the target's noise (Gumbel coupling) and the likeliest alternatives stand beside.

    `vocab_size` is that of the draft's logits, which lie on `device`.
    """

    def __init__(
        self,
        target: Target,
        vocab_size: int,
        device: torch.device,
        *,
        width: int = 1,
        num_children: int = 2,
        max_depth: int = 8,
        is_paced: bool = True,
    ) -> None:
        if min(width, num_children, max_depth) < 1:
            raise ValueError(f"{width=}, {num_children=} and {max_depth=} must be at least 1")
        self.width = width
        self.num_children = num_children
        self.max_depth = max_depth
        self.is_textbook = False
        self.pace = Pace(target.device, is_paced)
        self.calibration = Calibration(_prior)
        self.end_tokens = target.eos_token_ids
        self._vocab_size = target.vocab_size
        self._shared_vocab = min(target.vocab_size, vocab_size)
        suppressed = [token for token in target.suppressed_token_ids if token < self._shared_vocab]
        self._suppressed = torch.tensor(suppressed, dtype=torch.int64, device=device)

    @abstractmethod
    def draft(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> Seq[Beam]:
        """Grown beams of the rows that can be drafted for (`grow`); not called where none is asked for."""

    def read_verification(self, rule: str) -> None:
        self.is_textbook = rule == "speculative_sampling"

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        self.pace.begin()
        beams: dict[int, Beam] = {}
        if max(max_nodes) > 0:
            beams = {beam.row.id: beam for beam in self.draft(rows, max_nodes)}
        return [beams[row.id].build() if row.id in beams else EMPTY_TREE for row in rows]

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        self.calibration.record_all(tried(trees, verdicts))
        self.pace.finish(sum(len(verdict.path) + 1 for verdict in verdicts))

    def grow(self, beams: Seq[Beam], first: torch.Tensor, deeper: Callable[[], torch.Tensor]) -> None:
        """Level after level. `first` [beams with a frontier, V] are the logits behind the pending tokens, and
        `deeper()` [sum of frontiers, V] those behind the nodes of all frontiers by then."""
        self._expand(beams, first)
        while sum(beam.reach for beam in beams) and self.pace.pays(sum(beam.reach for beam in beams)):
            self._expand(beams, deeper())

    def _expand(self, beams: Seq[Beam], logits: torch.Tensor) -> None:
        """Children of all frontiers, whose logits [sum of frontiers, V] stand one behind the other; then the
        frontiers move on."""
        logits = self.permitted(logits)
        nodes = [(beam, node) for beam in beams for node in beam.frontier]
        drawn = [m for m, (beam, _) in enumerate(nodes) if self.draws(beam)]
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
            beam.advance(self.width, frozenset() if self.draws(beam) else self.end_tokens)
        self.pace.passed()

    def draws(self, beam: Beam) -> bool:
        return self.is_textbook and beam.row.params.temperature > 0

    def _add_children(self, logits: torch.Tensor, nodes: Seq[tuple[Beam, int]], *, is_drawn: bool) -> None:
        ranking = self.rank([beam.spot(node) for beam, node in nodes], logits, is_drawn=is_drawn)
        for m, (beam, parent) in enumerate(nodes):
            self.add(beam, parent, ranking, m)

    def rank(self, spots: Seq[Spot], logits: torch.Tensor, *, is_drawn: bool) -> Ranking:
        """The guesses behind some places; logits [M, V] of permitted tokens."""
        ranking = (draw if is_drawn else rank)(logits, spots, self.num_children)
        return ranking if ranking.probs is None else ranking._replace(probs=self._widened(ranking.probs))

    def add(self, beam: Beam, parent: int, ranking: Ranking, m: int) -> int | None:
        """Children of a node from a ranking's place `m`; returns the first, if it is worth a slot."""
        first, last = None, 1.0
        pairs = zip(ranking.tokens[m], ranking.confidences[m], strict=True)
        for place, (token, confidence) in enumerate(pairs):
            if confidence <= 0.0:
                break
            cell = self._cell(beam, parent, place, confidence, ranking.probs is not None)
            # Siblings stay in the order in which they were drawn.
            last = min(last, self.calibration.estimate(cell))
            node = beam.add(parent, token, last, cell, None if ranking.probs is None else ranking.probs[m])
            first = node if place == 0 else first
        return first

    def _cell(
        self, beam: Beam, parent: int, place: int, confidence: float, is_drawn: bool
    ) -> tuple[str, int, int]:
        """What an estimate hangs on."""
        place = min(place, _MAX_RANK)
        if is_drawn:
            return "drawn", place, min(beam.depth(parent), _MAX_DEPTH)
        kind = "sampled" if beam.row.params.temperature > 0 else "greedy"
        return kind, place, step_of(confidence)

    def permitted(self, logits: torch.Tensor) -> torch.Tensor:
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
