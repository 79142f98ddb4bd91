"""How much tokens tell of what a text is about: how rare they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .questions import FUNCTION_WORDS

# A token in a third of all texts weighs nothing, one in a thousandth of them all that it can (natural logarithms).
_COMMON, _RARE = 1.0, 6.0


def token_weights(texts: Sequence[list[int]], size: int) -> Tensor:
    """How much a token tells of what a text is about `[V]`, from 0 to 1: its inverse document frequency, bounded."""
    counts = torch.zeros(size)
    for ids in texts:
        counts[list(set(ids))] += 1
    rarity = (len(texts) / counts.clamp(min=1.0)).log()
    return ((rarity - _COMMON) / (_RARE - _COMMON)).clamp(0.0, 1.0)


def are_mute(vocabulary: Sequence[str | None]) -> Tensor:
    """Which tokens tell nothing of what a text is about `[V]`: function words, and all that is no word."""
    words = [(token or "").lstrip("Ġ") for token in vocabulary]
    return torch.tensor([word.lower() in FUNCTION_WORDS or not word.isalnum() for word in words])
