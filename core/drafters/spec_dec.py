"""A non-autoregressive drafter: a small model fills in a block of masks behind the text in one pass (SpecDec, Xia et
al. 2203.16487)."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch

from core.drafters.base import Drafter
from core.drafters.draft_model import load_draft, same_tokens
from core.drafters.draft_slots import OwnSlots, Place
from core.drafters.product_tree import ProductTrees
from core.drafters.ranking import Ranking, Spot, rank
from core.packing import PackedRow
from core.targets.base import PassOutput, Target
from core.types import EMPTY_TREE, DraftTree, Sequence, Verdict


class SpecDec(Drafter):
    """`model` is a folder or hub id, or a target, of the same kind and with the same tokens as the target; one that
    has learnt that what stands behind a text and i mask tokens is the token i + 1 places on. The decoder reads the
    pending token and `block_size` - 1 masks; the tree is the likeliest part of the product of all places'
    `num_candidates` first guesses.

    `mask_token_id` is by default that of the model's tokenizer. Other than published, a mask sees those before it
    only, so that any decoder can be used, with its cache. Memory: the model, and
    its cache for the rows that run and `max_parked` others. Raises ValueError for a model of another kind, for
    another vocabulary and where no mask is known.
    """

    def __init__(
        self,
        target: Target,
        model: str | Path | Target,
        *,
        mask_token_id: int | None = None,
        block_size: int = 6,
        num_candidates: int = 3,
        max_parked: int | None = None,
        dtype: str | None = None,
    ) -> None:
        if min(block_size, num_candidates) < 1:
            raise ValueError(f"{block_size=} and {num_candidates=} must be at least 1")
        draft, self._tokenizer = load_draft(target, model, dtype)
        if mask_token_id is None:
            mask_token_id = getattr(self._tokenizer, "mask_token_id", None)
        if mask_token_id is None or not 0 <= mask_token_id < draft.vocab_size:
            raise ValueError(
                f"{mask_token_id=}: give mask_token_id= below {draft.vocab_size}; no tokenizer names one"
            )
        self._mask = mask_token_id
        self._block_size = block_size
        self._num_candidates = num_candidates
        self._slots = OwnSlots(draft, max_parked)
        self._trees = ProductTrees(target.eos_token_ids)
        self._shared_vocab = min(target.vocab_size, draft.vocab_size)
        banned = [token for token in target.suppressed_token_ids if token < self._shared_vocab]
        self._banned = torch.tensor(banned, dtype=torch.int64, device=draft.device)

    def read_vocabulary(self, tokenizer: Any) -> None:
        if self._tokenizer is not None and not same_tokens(self._tokenizer, tokenizer):
            raise ValueError(
                "the non-autoregressive drafter has another vocabulary than the target; train one for it"
            )

    def begin(self, row: Sequence) -> None:
        self._slots.begin(row)

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        trees: dict[int, DraftTree] = {}
        if max(max_nodes) > 0:
            limits = {row.id: limit for row, limit in zip(rows, max_nodes, strict=True)}
            places = self._slots.places(rows)
            if places:
                trees = self._fill(places, limits)
        return [trees.get(row.id, EMPTY_TREE) for row in rows]

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        self._trees.learn(trees, verdicts)
        self._slots.settle(rows)

    def end(self, row: Sequence) -> None:
        self._slots.end(row)

    def _fill(self, places: Seq[Place], limits: dict[int, int]) -> dict[int, DraftTree]:
        """One pass over all rows; what the masks left in the cache is not kept."""
        room = self._slots.target.max_length
        sizes = [min(self._block_size, room - place.end + 1) for place in places]
        ranking = self._guess(places, sizes)
        firsts = [0, *accumulate(sizes)]
        trees = {}
        for place, first, size in zip(places, firsts, sizes, strict=False):
            self._slots.wrote(place, EMPTY_TREE)
            row = place.row
            trees[row.id] = self._trees.grow(row, ranking, range(first, first + size), limits[row.id])
        return trees

    def _guess(self, places: Seq[Place], sizes: Seq[int]) -> Ranking:
        """What stands at each place of each row's block, row after row."""
        draft = self._slots.target
        packed = [
            PackedRow(place.length, place.certain + [self._mask] * (size - 1))
            for place, size in zip(places, sizes, strict=True)
        ]
        output = draft.forward(draft.pack(packed))
        queries = [
            offset + len(place.certain) - 1 + i
            for offset, place, size in zip(output.offsets, places, sizes, strict=False)
            for i in range(size)
        ]
        logits = output.logits[torch.tensor(queries, device=output.logits.device), : self._shared_vocab]
        if len(self._banned):
            logits = logits.index_fill(-1, self._banned, -torch.inf)
        spots = [
            Spot(place.row.params, place.row.position + i)
            for place, size in zip(places, sizes, strict=True)
            for i in range(size)
        ]
        return rank(logits, spots, self._num_candidates)
