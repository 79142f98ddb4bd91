"""What tokens mean, counted: vectors of positive mutual information (Levy and Goldberg 2014), in seconds on a CPU.

A model this small reads too little text to learn which words are dates, names or places. Its embeddings begin with it.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

_WINDOW = 4
# Makes rare contexts count for less (Levy, Goldberg and Dagan 2015).
_SMOOTHING = 0.75


def _pair_counts(rows: Iterable[list[int]], size: int) -> Tensor:
    """How often two tokens stand within the window of each other `[V, V]`."""
    counts = torch.zeros(size * size)
    for row in rows:
        ids = torch.tensor(row)
        for k in range(1, min(_WINDOW + 1, len(ids))):
            pairs = ids[:-k] * size + ids[k:]
            counts.index_add_(0, pairs, torch.full((len(pairs),), 1.0 / k))
    square = counts.view(size, size)
    return square + square.T


def word_vectors(rows: Iterable[list[int]], size: int, width: int) -> Tensor:
    """Unit vectors `[V, width]` of tokens by what stands around them; tokens that do not occur get zeros."""
    counts = _pair_counts(rows, size)
    context = counts.sum(0) ** _SMOOTHING
    expected = counts.sum(1, keepdim=True) * (context / context.sum())
    information = (counts / expected.clamp(min=1e-9)).clamp(min=1.0).log()
    torch.manual_seed(0)
    left, values, _ = torch.svd_lowrank(information, q=width + 8, niter=3)
    vectors = left[:, :width] * values[:width].sqrt()
    return vectors / vectors.norm(dim=1, keepdim=True).clamp(min=1e-9)
