"""Rows of different widths side by side, without the padding of a grid.

Knows lengths and tensors. Does not know what is computed on them. Maps that treat every query alike run on the
flat form; only attention needs rows of equal width, and gets them for a while.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
import torch

#: Sources whose lengths differ by no more than this share are padded to the same length.
_LIKE_LENGTH = 0.15


def flat_bucket(size: int) -> int:
    """Flat sizes are rounded up, by an eighth at most: oneDNN prepares a kernel for each that it meets."""
    step = max(4, 1 << max(size.bit_length() - 4, 0))
    return -(-size // step) * step


@dataclass(frozen=True)
class FlatRows:
    """`offsets[b]`: where row b begins among the M flat queries. `kept` [M]: their places in the grid [B*T];
    `places` [B*T]: for each place of the grid its query, for padding the row's last one.
    """

    offsets: Seq[int]
    kept: torch.Tensor
    places: torch.Tensor

    @classmethod
    def of(cls, num_queries: Seq[int], width: int) -> FlatRows | None:
        """For rows of so many queries in a grid `width` wide; None where the grid has (nearly) no padding."""
        size = flat_bucket(sum(num_queries))
        if len(num_queries) == 1 or size >= len(num_queries) * width:
            return None
        counts = np.asarray(num_queries)
        starts = np.cumsum(counts) - counts
        steps = np.arange(width)
        places = starts[:, None] + np.minimum(steps, counts[:, None] - 1)
        kept = np.zeros(size, dtype=np.int64)
        kept[: counts.sum()] = np.flatnonzero(steps < counts[:, None])
        return cls(starts.tolist(), torch.from_numpy(kept), torch.from_numpy(places.reshape(-1)))

    def flatten(self, grid: torch.Tensor) -> torch.Tensor:
        """[B*T, ..] to [M, ..]."""
        return grid.index_select(0, self.kept)

    def spread(self, flat: torch.Tensor) -> torch.Tensor:
        """[M, ..] to [B*T, ..]."""
        return flat.index_select(0, self.places)


@dataclass(frozen=True)
class LengthGroup:
    """Rows `rows` of like length, padded to `width`, in the flat form from `start` on."""

    rows: list[int]
    lengths: list[int]
    width: int
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.rows) * self.width


def length_groups(lengths: Seq[int]) -> list[LengthGroup]:
    """Rows sorted into groups of like length, longest first, so that little is padded."""
    groups: list[LengthGroup] = []
    start = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if groups and lengths[row] >= (1 - _LIKE_LENGTH) * groups[-1].width:
            groups[-1].rows.append(row)
            groups[-1].lengths.append(lengths[row])
        else:
            groups.append(LengthGroup([row], [lengths[row]], lengths[row], start))
        start += groups[-1].width
    return groups


def spread(x: torch.Tensor, flat: FlatRows | None) -> torch.Tensor:
    """[M, ..] to [B*T, ..]; the same where no padding was left out."""
    return x if flat is None else flat.spread(x)


def flattened(x: torch.Tensor, flat: FlatRows | None = None) -> torch.Tensor:
    """Heads [B, H, T, D] side by side, [M, H*D]."""
    batch, heads, queries, head_dim = x.shape
    grid = x.transpose(1, 2).reshape(batch * queries, heads * head_dim)
    return grid if flat is None else flat.flatten(grid)


def write_behind(stored: torch.Tensor, slots: torch.Tensor | int, new: torch.Tensor) -> None:
    """Keys and values [2, B, H, T, D] into `stored`, from one offset on or at the slots [B, T] of each row."""
    if isinstance(slots, int):
        stored[:, :, :, slots : slots + new.shape[3]] = new
    else:
        stored.scatter_(3, slots[None, :, None, :, None].expand_as(new), new)
