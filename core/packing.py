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

#: Passes over at most so many key slots take their chain mask from a table (4 MB in float32).
_MAX_TABLE = 1024


@dataclass(frozen=True)
class PackedRow:
    """`tokens` (certain, at least one) follow `length` committed ones; `tree` hangs from the last of them."""

    length: int
    tokens: Seq[int]
    tree: DraftTree = EMPTY_TREE

    @property
    def num_queries(self) -> int:
        return len(self.tokens) + len(self.tree)

    @property
    def is_chain(self) -> bool:
        return list(self.tree.parents) == list(range(-1, len(self.tree) - 1))

    def parents(self) -> list[int]:
        """Of every query, the query before it; -1 for the first."""
        certain = len(self.tokens)
        nodes = [certain - 1 if parent < 0 else certain + parent for parent in self.tree.parents]
        return [*range(-1, certain - 1), *nodes]


@dataclass(frozen=True)
class Pass:
    """Inputs of one call of a target, for the slots `first_slot .. first_slot + B`.

    `tokens`, `positions` [B, T] int64; `lengths` [B] int64, `host_lengths` the same on the host;
    `tree_mask` [B, T, T+1] additive: query t sees query u of its own row where it is 0 (last column: never);
    `key_length` L. Encoder-decoder targets add `source_lengths` [B] int64 and `source_key_length` S. A pass
    whose numbers the host does not know (it will be replayed with others) has no `host_lengths`.
    `num_queries`: of each row, without padding, where the host knows. `is_chain`: it is known that no row
    branches.
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
    is_chain: bool = False
    num_queries: tuple[int, ...] = ()

    @property
    def rows(self) -> slice:
        return slice(self.first_slot, self.first_slot + self.tokens.shape[0])

    def to(self, device: torch.device) -> Pass:
        """The same pass with its tensors on another device."""
        tensors = {f.name: t for f in fields(self) if isinstance(t := getattr(self, f.name), torch.Tensor)}
        return replace(self, **{name: tensor.to(device) for name, tensor in tensors.items()})  # type: ignore[arg-type]

    def write_slots(self) -> torch.Tensor | int:
        """Where the new keys go: one offset if all rows agree, else slots [B, T]."""
        common = self._common_length()
        if common is not None:
            return common
        steps = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return self.lengths[:, None] + steps

    def attention_mask(self) -> torch.Tensor:
        """Additive mask [B, 1, T, L]: committed slots, and each query's own ancestors."""
        start = self._common_length()
        if self.is_chain and start is not None and self.key_length <= _MAX_TABLE:
            table = _causal(_MAX_TABLE, self.tree_mask.dtype, self.tree_mask.device)
            num_rows, num_queries = self.tokens.shape
            # Some models insist on a mask for each row.
            return table[None, None, start : start + num_queries, : self.key_length].expand(
                num_rows, -1, -1, -1
            )
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

    def _common_length(self) -> int | None:
        """The committed length, where it is known to be the same for all rows."""
        lengths = self.host_lengths
        return lengths[0] if lengths and lengths.count(lengths[0]) == len(lengths) else None

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

    Padding queries repeat token 0 at a position that exists and see at least themselves; nobody reads them.
    """
    padding = [[0] * num_queries] * ((num_rows or len(rows)) - len(rows))
    gaps = [[0] * (num_queries - row.num_queries) for row in rows]
    tokens = [[*row.tokens, *row.tree.tokens, *gap] for row, gap in zip(rows, gaps, strict=True)]
    positions = [[*_positions(row), *gap] for row, gap in zip(rows, gaps, strict=True)]
    lengths = [row.length for row in rows] + [0] * len(padding)
    is_chain = all(row.is_chain for row in rows)
    mask = _chain_mask if is_chain else _tree_mask
    return Pass(
        tokens=torch.tensor(tokens + padding, device=device),
        positions=torch.tensor(positions + padding, device=device),
        lengths=torch.tensor(lengths, device=device),
        host_lengths=tuple(lengths),
        tree_mask=mask(rows, len(lengths), num_queries, dtype, device),
        key_length=key_length,
        first_slot=first_slot,
        is_chain=is_chain,
        num_queries=tuple(row.num_queries for row in rows),
    )


def _positions(row: PackedRow) -> list[int]:
    if row.is_chain:
        return list(range(row.length, row.length + row.num_queries))
    positions: list[int] = []
    for parent in row.parents():
        positions.append(row.length if parent < 0 else positions[parent] + 1)
    return positions


def _chain_mask(
    rows: Seq[PackedRow], num_rows: int, num_queries: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    size = -(-(num_queries + 1) // 64) * 64
    return _causal(size, dtype, device)[:num_queries, : num_queries + 1].expand(num_rows, -1, -1)


def _tree_mask(
    rows: Seq[PackedRow], num_rows: int, num_queries: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """A query sees what its parent sees, and itself. What each sees is gathered in the bits of one number."""
    num_bytes = num_queries // 8 + 1
    words = []
    for row in rows:
        seen: list[int] = []
        for query, parent in enumerate(row.parents()):
            seen.append((seen[parent] if parent >= 0 else 0) | 1 << query)
        words += seen + [1 | 1 << query for query in range(len(seen), num_queries)]
    words += [1 | 1 << query for query in range(num_queries)] * (num_rows - len(rows))
    packed = np.frombuffer(b"".join(word.to_bytes(num_bytes, "little") for word in words), dtype=np.uint8)
    bits = np.unpackbits(packed.reshape(-1, num_bytes), axis=1, count=num_queries + 1, bitorder="little")
    hidden = torch.from_numpy(bits == 0).view(num_rows, num_queries, num_queries + 1)
    mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, torch.finfo(dtype).min)
    return mask.to(device)


@lru_cache(maxsize=64)
def _causal(size: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Additive mask [size, size]: entry i sees the entries 0..i."""
    return torch.full((size, size), torch.finfo(dtype).min, dtype=dtype, device=device).triu_(1)
