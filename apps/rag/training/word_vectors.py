"""What tokens mean, counted: vectors of positive mutual information (Levy and Goldberg 2014), and how rare they are.

A model this small reads too little text to learn which words are dates, names or places. Its embeddings begin with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

_WINDOW = 4
# Makes rare contexts count for less (Levy, Goldberg and Dagan 2015).
_SMOOTHING = 0.75
# A token in a third of all texts weighs nothing, one in a thousandth of them all that it can (natural logarithms).
_COMMON, _RARE = 1.0, 6.0


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


def token_weights(texts: Sequence[list[int]], size: int) -> Tensor:
    """How much a token tells of what a text is about `[V]`, from 0 to 1: its inverse document frequency, bounded."""
    counts = torch.zeros(size)
    for ids in texts:
        counts[list(set(ids))] += 1
    rarity = (len(texts) / counts.clamp(min=1.0)).log()
    return ((rarity - _COMMON) / (_RARE - _COMMON)).clamp(0.0, 1.0)
