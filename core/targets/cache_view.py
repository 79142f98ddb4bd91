"""Our ragged cache, in the shape that transformers' attention modules expect to be handed.

Knows transformers' `Cache` protocol as of 5.x. Does not know model families.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, EncoderDecoderCache

from core.cache import RaggedCache
from core.packing import Pass


class SelfAttentionView(Cache):
    """One pass's view of the cache: `update` writes behind each row's own length and returns the rows' slots."""

    def __init__(self, cache: RaggedCache, batch: Pass) -> None:
        super().__init__(layers=[])
        self._cache = cache
        self._batch = batch
        self._slots = batch.write_slots()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self._cache.write(layer_idx, self._batch.rows, self._slots, key_states, value_states)
        return self._cache.view(layer_idx, self._batch.rows, self._batch.key_length)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Slots in front of this pass's. Positions and masks are given explicitly, so nothing hangs on it."""
        return self._batch.key_length - self._batch.tokens.shape[1]

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self._batch.key_length, 0

    @property
    def is_compileable(self) -> bool:
        return False


class _CrossLayer:
    """Keys and values of one layer's cross-attention, read directly by the attention modules."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.keys = keys
        self.values = values


class CrossAttentionView(Cache):
    """The encoder's keys and values, computed once when a row joins."""

    def __init__(self, cache: RaggedCache, rows: slice, length: int) -> None:
        super().__init__(layers=[])
        self.layers = [_CrossLayer(*cache.view(i, rows, length)) for i in range(cache.num_layers)]
        self._length = length

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._length

    @property
    def is_compileable(self) -> bool:
        return False


def encoder_decoder_view(own: SelfAttentionView, cross: CrossAttentionView) -> EncoderDecoderCache:
    """Both halves, with every cross-attention layer marked as filled."""
    view = EncoderDecoderCache(own, cross)
    view.is_updated = dict.fromkeys(range(len(cross.layers)), True)
    return view
