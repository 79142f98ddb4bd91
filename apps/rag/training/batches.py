"""Batches of a few fixed shapes out of shards of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from .rows import UNIT

#: What a shard holds of each width.
PARTS = ("ids", "places", "weights", "pointers")


@dataclass
class Batch:
    """Ids `[B, L]`; targets as flat places `[M]` in them, with the token that follows and its weight.

    `branches` `[B, L]` tells which branch of its row a token is in (0: what all branches see), `positions` `[B, L]`
    where it stands in its own conversation; `pointers` `[B, P, 4]` are those of the rows.
    """

    ids: torch.Tensor
    places: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor
    branches: torch.Tensor
    positions: torch.Tensor
    pointers: torch.Tensor

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""
        return Batch(
            *(getattr(self, name).to(device, non_blocking=True) for name in self.__dataclass_fields__)
        )

    @property
    def tokens(self) -> int:
        """How many tokens are read."""
        return self.ids.numel()

    @property
    def sees(self) -> torch.Tensor:
        """Which token sees which: those before it, of its own branch and of what all see `[B, 1, L, L]`."""
        here, there = self.branches[:, None, :, None], self.branches[:, None, None, :]
        return ((there == 0) | (here == there)).tril()


def make_batch(ids: np.ndarray, places: np.ndarray, weights: np.ndarray, pointers: np.ndarray) -> Batch:
    """Rows `[B, L]` with their places and weights `[B, M]` and pointers `[B, P, 4]` as one batch."""
    wide = ids.astype(np.int64)
    at = places.astype(np.int64)
    labels = np.take_along_axis(wide, at + 1, axis=1)
    flat = at + np.arange(len(ids))[:, None] * ids.shape[1]
    branches, positions = _branches(pointers[..., 3].astype(np.int64), ids.shape[1])
    return Batch(
        torch.from_numpy(wide),
        torch.from_numpy(flat.reshape(-1)),
        torch.from_numpy(labels.reshape(-1)),
        torch.from_numpy(weights.reshape(-1).astype(np.float32) / UNIT),
        torch.from_numpy(branches),
        torch.from_numpy(positions),
        torch.from_numpy(pointers.astype(np.int64)),
    )


def _branches(begins: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Branches and positions `[B, L]` of rows whose branches begin at `[B, P]` (0: no more of them)."""
    places = np.arange(length)
    branches = ((begins[:, :, None] > 0) & (begins[:, :, None] <= places)).sum(1)
    mine = np.take_along_axis(begins, np.maximum(branches - 1, 0), axis=1)
    return branches, np.where(branches > 0, places - mine + begins[:, :1], places)


def batches(path: Path, tokens: int, seed: int) -> Iterator[Batch]:
    """The batches of a shard in random order, about `tokens` tokens each; rows that fill none are left out."""
    rng = np.random.default_rng(seed)
    with np.load(path) as arrays:
        held = {name: arrays[name] for name in arrays.files}
    plan: list[tuple[int, np.ndarray]] = []
    for width in sorted(int(name[4:]) for name in held if name.startswith("ids-")):
        rows = rng.permutation(len(held[f"ids-{width}"]))
        size = max(1, tokens // width)
        plan += [(width, rows[k : k + size]) for k in range(0, len(rows) - len(rows) % size, size)]
    for k in rng.permutation(len(plan)):
        width, rows = plan[k]
        yield make_batch(*(held[f"{part}-{width}"][rows] for part in PARTS))
