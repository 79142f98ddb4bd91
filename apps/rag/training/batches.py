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

    `pointers` `[B, P, 3]` are those of the rows.
    """

    ids: torch.Tensor
    places: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor
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


def make_batch(ids: np.ndarray, places: np.ndarray, weights: np.ndarray, pointers: np.ndarray) -> Batch:
    """Rows `[B, L]` with their places and weights `[B, M]` and pointers `[B, P, 3]` as one batch."""
    wide = ids.astype(np.int64)
    at = places.astype(np.int64)
    labels = np.take_along_axis(wide, at + 1, axis=1)
    flat = at + np.arange(len(ids))[:, None] * ids.shape[1]
    return Batch(
        torch.from_numpy(wide),
        torch.from_numpy(flat.reshape(-1)),
        torch.from_numpy(labels.reshape(-1)),
        torch.from_numpy(weights.reshape(-1).astype(np.float32) / UNIT),
        torch.from_numpy(pointers.astype(np.int64)),
    )


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
