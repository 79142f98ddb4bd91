"""Feed-forward heads on the target's last hidden state: one guess at each place ahead, all at once (Medusa, Cai et al.
2401.10774; with a shared output projection, blockwise parallel decoding, Stern et al. 1811.03115)."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from pathlib import Path

import torch

from core.drafters.base import Drafter
from core.drafters.medusa_heads import MedusaHeads
from core.drafters.model_parts import ModelParts
from core.drafters.product_tree import ProductTrees
from core.drafters.ranking import Ranking, Spot, rank
from core.targets.base import PassOutput, Target
from core.types import EMPTY_TREE, DraftTree, Sequence, Verdict


class Heads(Drafter):
    """The likeliest nodes of the product of all heads' `num_candidates` first guesses: what a head guesses hangs on
    the place alone, so every guess at one place may stand behind every guess at the place before.

    `model` is a folder with trained `MedusaHeads`, or those heads. Memory: theirs, and a hidden state for each row.
    Raises ValueError for heads that were trained for another target.
    """

    needs_hidden = True
    # The hidden state is found by the node's number in the tree that was verified.
    needs_logits = True

    def __init__(
        self,
        target: Target,
        model: str | Path | MedusaHeads,
        *,
        num_candidates: int = 4,
    ) -> None:
        if num_candidates < 1:
            raise ValueError(f"{num_candidates=} must be at least 1")
        self._parts = ModelParts.of(target)
        if not isinstance(model, MedusaHeads):
            model = MedusaHeads.load(model, target.device, self._parts.output_weight.dtype)
        sizes = (model.config["hidden_size"], model.vocab_size)
        if sizes != (self._parts.hidden_size, len(self._parts.output_weight)):
            raise ValueError(
                f"these heads are for hidden states of {sizes[0]} and {sizes[1]} tokens, but the target has "
                f"{self._parts.hidden_size} and {len(self._parts.output_weight)}; train them for this target"
            )
        self.heads = model
        self._num_candidates = num_candidates
        self._suppressed = torch.tensor(target.suppressed_token_ids, dtype=torch.int64, device=target.device)
        self._trees = ProductTrees(target.eos_token_ids)
        # For each row, how many tokens it had when its hidden state was seen, and the state.
        self._seen: dict[int, tuple[int, torch.Tensor]] = {}

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        known = [row for row in rows if self._seen.get(row.id, (-1,))[0] == len(row.tokens)]
        if not known or max(max_nodes) < 1:
            return [EMPTY_TREE] * len(rows)
        return self._grow(known, rows, max_nodes)

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        self._trees.learn(trees, verdicts)
        assert output.hidden is not None, "heads read hidden states"
        last = [verdict.path[-1] + 1 if verdict.path else 0 for verdict in verdicts]
        places = [offset + node for offset, node in zip(output.offsets, last, strict=False)]
        states = output.hidden[torch.tensor(places, device=output.hidden.device)]
        for row, state in zip(rows, states, strict=True):
            self._seen[row.id] = len(row.tokens), state

    def end(self, row: Sequence) -> None:
        self._seen.pop(row.id, None)

    def _grow(self, known: Seq[Sequence], rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        guessed = self._guess(known)
        places = {row.id: m for m, row in enumerate(known)}
        return [
            self._trees.grow(row, guessed, range(places[row.id], len(guessed.tokens), len(known)), limit)
            if row.id in places
            else EMPTY_TREE
            for row, limit in zip(rows, max_nodes, strict=True)
        ]

    def _guess(self, rows: Seq[Sequence]) -> Ranking:
        """What each head would choose for each row, in one call; head after head, the rows one behind the other."""
        hidden = torch.stack([self._seen[row.id][1] for row in rows]).to(self._parts.output_weight.dtype)
        logits = self.heads(hidden, self._parts.output_weight).flatten(0, 1)
        if len(self._suppressed):
            logits = logits.index_fill(-1, self._suppressed, -torch.inf)
        spots = [
            Spot(row.params, row.position + place) for place in range(self.heads.num_heads) for row in rows
        ]
        return rank(logits, spots, self._num_candidates)
