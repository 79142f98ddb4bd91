"""Batches of a few fixed shapes out of shards: rows of alike length, padded to one of a dozen widths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

# Every new shape costs a compiled kernel, every padded token a wasted one.
WIDTHS = (16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192, 256)


@dataclass
class Batch:
    """One batch; `labels` is -100 where the target is padded, `edited` marks corrected places."""

    source: torch.Tensor
    mask: torch.Tensor
    decoder_input: torch.Tensor
    labels: torch.Tensor
    edited: torch.Tensor

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""
        return Batch(
            *(getattr(self, name).to(device, non_blocking=True) for name in self.__dataclass_fields__)
        )

    @property
    def tokens(self) -> int:
        """How many target tokens it holds, padding not counted."""
        return int((self.labels >= 0).sum())


class Shard:
    """One shard in memory."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as arrays:
            self.src, self.tgt = arrays["src"], arrays["tgt"]
            self.src_len, self.tgt_len = (
                arrays["src_len"].astype(np.int64),
                arrays["tgt_len"].astype(np.int64),
            )
            self.edited = np.unpackbits(arrays["edited"], count=len(self.tgt))
        self.src_at = np.concatenate(([0], np.cumsum(self.src_len)))
        self.tgt_at = np.concatenate(([0], np.cumsum(self.tgt_len)))

    def __len__(self) -> int:
        return len(self.src_len)

    def batch(self, rows: np.ndarray, width: int, pad: int, start: int) -> Batch:
        """Some rows as one padded batch."""
        source = np.full((len(rows), width), pad, dtype=np.int64)
        labels = np.full((len(rows), width), -100, dtype=np.int64)
        edited = np.zeros((len(rows), width), dtype=np.float32)
        for k, row in enumerate(rows):
            n, m = self.src_len[row], self.tgt_len[row]
            source[k, :n] = self.src[self.src_at[row] : self.src_at[row + 1]]
            labels[k, :m] = self.tgt[self.tgt_at[row] : self.tgt_at[row + 1]]
            edited[k, :m] = self.edited[self.tgt_at[row] : self.tgt_at[row + 1]]
        shifted = np.full_like(source, pad)
        shifted[:, 1:] = np.where(labels[:, :-1] < 0, pad, labels[:, :-1])
        shifted[:, 0] = start
        mask = (np.arange(width)[None, :] < self.src_len[rows][:, None]).astype(np.int64)
        return Batch(*(torch.from_numpy(a) for a in (source, mask, shifted, labels, edited)))


def batches(
    shard: Shard, tokens: int, pad: int, start: int, seed: int, whole: bool = True
) -> Iterator[Batch]:
    """The batches of a shard in random order, about `tokens` padded target tokens each.

    With `whole`, rows that do not fill a batch are left out, so that no odd shape comes up.
    """
    rng = np.random.default_rng(seed)
    longest = np.maximum(shard.src_len, shard.tgt_len)
    slots = np.searchsorted(WIDTHS, longest)
    plan: list[tuple[int, np.ndarray]] = []
    for slot, width in enumerate(WIDTHS):
        rows = rng.permutation(np.flatnonzero(slots == slot))
        size = max(1, tokens // width)
        stop = len(rows) - len(rows) % size if whole else len(rows)
        plan += [(width, rows[k : k + size]) for k in range(0, stop, size)]
    for k in rng.permutation(len(plan)):
        width, rows = plan[k]
        yield shard.batch(rows, width, pad, start)
