"""From a model's token states to one vector per text.

Knows tensors and masks: B texts, L tokens, H features. Does not know where a model says which way it wants.
The modes are those of sentence-transformers (Reimers and Gurevych 2019, arXiv 1908.10084).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def pool(modes: Sequence[str], states: Tensor, mask: Tensor, prompt_tokens: int = 0) -> Tensor:
    """States [B, L, H] and mask [B, L] (1 where a token is) to vectors [B, H * len(modes)].

    The first `prompt_tokens` tokens of every text are left out.
    """
    positions = mask.cumsum(dim=1)  # 1 for the first token, whichever side the padding is on
    kept = (mask * (positions > prompt_tokens)).to(states.dtype).unsqueeze(-1)
    return torch.cat([_MODES[mode](states, kept, positions) for mode in modes], dim=-1)


def _mean(states: Tensor, kept: Tensor, positions: Tensor) -> Tensor:
    return (states * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1e-9)


def _mean_sqrt_length(states: Tensor, kept: Tensor, positions: Tensor) -> Tensor:
    return (states * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1e-9).sqrt()


def _weighted_mean(states: Tensor, kept: Tensor, positions: Tensor) -> Tensor:
    weights = kept * positions.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)


def _max(states: Tensor, kept: Tensor, positions: Tensor) -> Tensor:
    return states.masked_fill(kept == 0, float("-inf")).amax(dim=1)


def _first(states: Tensor, kept: Tensor, positions: Tensor) -> Tensor:
    return _take(states, kept.squeeze(-1).argmax(dim=1))


def _last(states: Tensor, kept: Tensor, positions: Tensor) -> Tensor:
    return _take(states, kept.shape[1] - 1 - kept.squeeze(-1).flip(1).argmax(dim=1))


def _take(states: Tensor, index: Tensor) -> Tensor:
    return states[torch.arange(len(states), device=states.device), index]


_MODES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "cls": _first,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt_length,
    "weightedmean": _weighted_mean,
    "lasttoken": _last,
}
