"""Key-value memory with rows of different lengths.

Knows tensors and slots. Does not know tokens, trees or models. How many slots of a row are committed is the
row's own business (`Sequence.cache_len`): whatever lies behind is stale and will be overwritten.

Running rows always occupy slots 0..B-1, so that a pass sees a view and copies nothing; a row that leaves is
replaced by the last one.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch


class RaggedCache:
    """Keys and values `[layers, 2, slots, H, capacity, D]` of one attention stack."""

    def __init__(
        self, num_layers: int, num_heads: int, head_dim: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._shape = (num_layers, num_heads, head_dim)
        self.data = torch.zeros((num_layers, 2, 0, num_heads, 0, head_dim), dtype=dtype, device=device)

    @property
    def num_layers(self) -> int:
        return self.data.shape[0]

    @property
    def num_slots(self) -> int:
        return self.data.shape[2]

    @property
    def capacity(self) -> int:
        return self.data.shape[4]

    @property
    def bytes_per_entry(self) -> int:
        """What one token of one row takes: keys and values of all layers."""
        layers, heads, head_dim = self._shape
        return 2 * layers * heads * head_dim * self.data.element_size()

    def reserve(self, num_slots: int, capacity: int) -> bool:
        """Make room, keeping the contents. Returns whether the storage moved (captured graphs are then void)."""
        if num_slots <= self.num_slots and capacity <= self.capacity:
            return False
        layers, heads, head_dim = self._shape
        shape = (layers, 2, max(num_slots, self.num_slots), heads, max(capacity, self.capacity), head_dim)
        grown = torch.zeros(shape, dtype=self.data.dtype, device=self.data.device)
        grown[:, :, : self.num_slots, :, : self.capacity] = self.data
        self.data = grown
        return True

    def write(
        self, layer: int, rows: slice, starts: torch.Tensor | int, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """Write `[B, H, T, D]` behind each row's own length.

        `starts` is one offset for all rows, or a tensor [B, T] of slots where the rows differ.
        """
        stored = self.data[layer, :, rows]
        if isinstance(starts, int):
            end = starts + keys.shape[2]
            stored[0, :, :, starts:end] = keys
            stored[1, :, :, starts:end] = values
            return
        index = starts[:, None, :, None].expand(-1, keys.shape[1], -1, keys.shape[3])
        stored[0].scatter_(2, index, keys)
        stored[1].scatter_(2, index, values)

    def view(self, layer: int, rows: slice, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values `[B, H, L, D]` of some rows, without a copy."""
        stored = self.data[layer, :, rows, :, :length]
        return stored[0], stored[1]

    def layers(self, rows: slice, length: int | None = None) -> Seq[torch.Tensor]:
        """Keys and values `[2, B, H, L, D]` of every layer, without a copy; up to the capacity by default."""
        return self.data[:, :, rows, :, :length].unbind(0)

    def gather(self, slot: int, source: Seq[int], start: int) -> None:
        """Move the entries at `source` to `start, start+1, ...` in one row (an accepted branch)."""
        row = self.data[:, :, slot]
        row[..., start : start + len(source), :] = row[..., list(source), :]

    def move(self, source_slot: int, slot: int, length: int) -> None:
        """Copy one row's first `length` entries to another slot."""
        self.data[:, :, slot, :, :length] = self.data[:, :, source_slot, :, :length]
