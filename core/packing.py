"""Rows of different lengths and trees, packed into the tensors of one pass.

Knows tokens, parents and lengths. Does not know models; it computes nothing.

A pass covers, for each row, some tokens that are certain (the pending one; a stretch of prompt) followed by
draft nodes. Query t of row b is written to slot `lengths[b] + t`.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np
import torch

from core.types import EMPTY_TREE, DraftTree


@dataclass(frozen=True)
class PackedRow:
    """`tokens` (certain, at least one) follow `length` committed ones; `tree` hangs from the last of them."""

    length: int
    tokens: Seq[int]
    tree: DraftTree = EMPTY_TREE

    @property
    def num_queries(self) -> int:
        return len(self.tokens) + len(self.tree)


@dataclass(frozen=True)
class Pass:
    """Inputs of one call of a target, for the slots `first_slot .. first_slot + B`.

    `tokens`, `positions` [B, T] int64; `lengths` [B] int64, `host_lengths` the same on the host;
    `tree_mask` [B, T, T+1] additive: query t sees query u of its own row where it is 0 (last column: never);
    `key_length` L. Encoder-decoder targets add `source_lengths` [B] int64 and `source_key_length` S. A pass
    whose numbers the host does not know (it will be replayed with others) has no `host_lengths`.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    lengths: torch.Tensor
    host_lengths: tuple[int, ...]
    tree_mask: torch.Tensor
    key_length: int
    first_slot: int = 0
    source_lengths: torch.Tensor | None = None
    source_key_length: int = 0

    @property
    def rows(self) -> slice:
        return slice(self.first_slot, self.first_slot + self.tokens.shape[0])

    def to(self, device: torch.device) -> Pass:
        """The same pass with its tensors on another device."""
        tensors = {f.name: t for f in fields(self) if isinstance(t := getattr(self, f.name), torch.Tensor)}
        return replace(self, **{name: tensor.to(device) for name, tensor in tensors.items()})  # type: ignore[arg-type]

    def write_slots(self) -> torch.Tensor | int:
        """Where the new keys go: one offset if all rows agree, else slots [B, T]."""
        if len(set(self.host_lengths)) == 1:
            return self.host_lengths[0]
        steps = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return self.lengths[:, None] + steps

    def attention_mask(self) -> torch.Tensor:
        """Additive mask [B, 1, T, L]: the row's committed slots, and each query's own ancestors."""
        return self.tree_mask.gather(2, self._relative_slots())[:, None]

    def key_positions(self) -> torch.Tensor:
        """Position [B, L] of the token in every slot (slots nobody sees hold anything)."""
        slots = torch.arange(self.key_length, device=self.tokens.device)
        relative = slots - self.lengths[:, None]
        num_queries = self.tokens.shape[1]
        in_pass = self.positions.gather(1, relative.clamp(0, num_queries - 1))
        return torch.where(relative < 0, slots, in_pass)

    def sliding_mask(self, window: int) -> torch.Tensor:
        """Additive mask [B, 1, T, L] that also hides keys `window` or more positions back."""
        mask = self.attention_mask()
        too_far = self.positions[:, :, None] - self.key_positions()[:, None, :] >= window
        return mask.masked_fill(too_far[:, None], torch.finfo(mask.dtype).min)

    def _relative_slots(self) -> torch.Tensor:
        # Committed slots clamp to query 0, which every query of the row descends from.
        num_queries = self.tokens.shape[1]
        slots = torch.arange(self.key_length, device=self.tokens.device)
        relative = (slots - self.lengths[:, None]).clamp_(0, num_queries)
        return relative[:, None, :].expand(-1, num_queries, -1)


def pack(
    rows: Seq[PackedRow],
    *,
    num_queries: int,
    key_length: int,
    dtype: torch.dtype,
    device: torch.device,
    first_slot: int = 0,
    num_rows: int | None = None,
) -> Pass:
    """Pad rows to `num_queries` (T) and to `num_rows` (B; defaults to the rows given).

    Padding queries repeat token 0 at a position that exists and see only themselves; nobody reads them.
    """
    num_rows = num_rows or len(rows)
    tokens = np.zeros((num_rows, num_queries), dtype=np.int64)
    positions = np.zeros((num_rows, num_queries), dtype=np.int64)
    # The mask is laid out in float32, whose lowest number is low enough for float64 too.
    hidden = max(torch.finfo(dtype).min, torch.finfo(torch.float32).min)
    mask = np.full((num_rows, num_queries, num_queries + 1), hidden, dtype=np.float32)
    lengths = [row.length for row in rows] + [0] * (num_rows - len(rows))
    diagonal = np.arange(num_queries)
    mask[:, diagonal, diagonal] = 0.0
    mask[:, :, 0] = 0.0
    for b, row in enumerate(rows):
        certain, n = len(row.tokens), row.num_queries
        tokens[b, :certain] = row.tokens
        tokens[b, certain:n] = row.tree.tokens
        positions[b, :certain] = np.arange(row.length, row.length + certain)
        mask[b, :certain, :certain] = _causal(certain, hidden)
        _fill_tree(row, certain, tokens=tokens[b], positions=positions[b], mask=mask[b], hidden=hidden)
    return Pass(
        tokens=torch.from_numpy(tokens).to(device),
        positions=torch.from_numpy(positions).to(device),
        lengths=torch.tensor(lengths, dtype=torch.int64, device=device),
        host_lengths=tuple(lengths),
        tree_mask=torch.from_numpy(mask).to(device=device, dtype=dtype),
        key_length=key_length,
        first_slot=first_slot,
    )


@lru_cache(maxsize=512)
def _causal(size: int, hidden: float) -> np.ndarray:
    return np.where(np.tri(size, dtype=bool), np.float32(0), np.float32(hidden))


def _fill_tree(
    row: PackedRow,
    certain: int,
    *,
    tokens: np.ndarray,
    positions: np.ndarray,
    mask: np.ndarray,
    hidden: float,
) -> None:
    """Positions by depth, and a mask row per node: its parent's row plus itself."""
    tree = row.tree
    if not len(tree):
        return
    end = certain + len(tree)
    last = row.length + certain - 1
    if list(tree.parents) == list(range(-1, len(tree) - 1)):
        positions[certain:end] = np.arange(last + 1, last + 1 + len(tree))
        mask[:end, :end] = _causal(end, hidden)
        return
    for i, parent in enumerate(tree.parents):
        node, above = certain + i, certain - 1 if parent < 0 else certain + parent
        mask[node] = mask[above]
        mask[node, node] = 0.0
        positions[node] = positions[above] + 1
