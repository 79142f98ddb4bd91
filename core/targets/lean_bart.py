"""BART on the CPU in few calls: the same weights as transformers' module, a third of its time on small models.

Knows BART's layers (layer norm behind each residual, learned positions, one table of embeddings scaled by
`scale_embedding`). Rows are kept flat, [B*T, width], except inside attention.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import BartForConditionalGeneration, PreTrainedModel

from core.packing import Pass
from core.targets.base import PassOutput, Target, _doubled
from core.targets.encoder_decoder import EncoderDecoder
from core.targets.linear import Form, Linear, fastest_linear

_DTYPES = (torch.float64, torch.float32, torch.bfloat16)


def fits(model: PreTrainedModel) -> bool:
    """Whether `LeanBart` runs this model: BART itself (no subclass, which may compute something else)."""
    return (
        type(model) is BartForConditionalGeneration and model.device.type == "cpu" and model.dtype in _DTYPES
    )


class LeanBart(EncoderDecoder):
    """`BartForConditionalGeneration` on the CPU. `hidden` of a pass is the decoder's last output."""

    def __init__(self, model: BartForConditionalGeneration, form: Form = fastest_linear) -> None:
        """`form` makes every matrix; `Int8Linear` trades exactness for speed."""
        super().__init__(model)
        parts = model.model
        activation = model.config.activation_function
        self._encoder = [_EncoderLayer(layer, activation, form) for layer in parts.encoder.layers]
        self._decoder = [_DecoderLayer(layer, activation, form) for layer in parts.decoder.layers]
        self._embed_source = _Embedding(parts.encoder)
        self._embed_target = _Embedding(parts.decoder)
        attentions = [layer.encoder_attn for layer in parts.decoder.layers]
        # Keys and values of all decoder layers in one product.
        self._cross_keys_values = _joined([p for a in attentions for p in (a.k_proj, a.v_proj)], form)
        self._head = form(model.lm_head.weight, _bias_or_none(model.final_logits_bias), None)
        self._source_mask_of: tuple[tuple[int, ...], torch.Tensor | None] = ((), None)

    def source_bucket(self, length: int) -> int:
        """Source lengths are rounded up: each new one costs some milliseconds of kernel preparation."""
        step = 4 if length <= 64 else 16
        return min(-(-length // step) * step, self.max_length)

    def query_bucket(self, num_queries: int) -> int:
        step = 1 if num_queries <= 4 else 4 if num_queries <= 64 else 16
        return -(-num_queries // step) * step

    def key_bucket(self, length: int) -> int:
        """Attention takes any length at the same price, so nothing is rounded."""
        return length

    def join(self, first_slot: int, prompts: Seq[Seq[int]]) -> list[int]:
        lengths = [len(prompt) for prompt in prompts]
        length = self.source_bucket(max(lengths))
        states = self._encode(prompts, length)
        slots, (layers, _, _, heads, _, head_dim) = len(prompts), self.cross_cache.data.shape
        needed = _doubled(self.cross_cache.num_slots, first_slot + slots)
        self.cross_cache.reserve(needed, _doubled(max(self.cross_cache.capacity, 32), length))
        both = self._cross_keys_values(states).view(slots, length, layers, 2, heads, head_dim)
        stored = self.cross_cache.data[:, :, first_slot : first_slot + slots, :, :length]
        stored.copy_(both.permute(2, 3, 0, 4, 1, 5))
        self.source_lengths[first_slot:] = lengths
        return Target.join(self, first_slot, prompts)

    def forward(self, batch: Pass, *, need_hidden: bool = False) -> PassOutput:
        num_rows, num_queries = batch.tokens.shape
        x = self._embed_target(batch.tokens, batch.positions)
        mask, cross_mask = batch.attention_mask(), self._cross_mask(batch)
        slots = batch.write_slots()
        own = self.cache.data[:, :, batch.rows]
        source_length = max(self.source_lengths[batch.rows])
        cross = self.cross_cache.data[:, :, batch.rows, :, :source_length]
        for layer, stored, seen in zip(self._decoder, own.unbind(0), cross.unbind(0), strict=True):
            x = layer(x, stored, slots, mask, seen, cross_mask)
        logits = self._head(x).view(num_rows, num_queries, -1)
        return PassOutput(logits, x.view(num_rows, num_queries, -1) if need_hidden else None)

    def _encode(self, prompts: Seq[Seq[int]], length: int) -> torch.Tensor:
        """States [B*S, width] of sources padded to `length`."""
        pad = self.config.pad_token_id or 0
        ids = torch.tensor([[*prompt, *[pad] * (length - len(prompt))] for prompt in prompts])
        x = self._embed_source(ids, torch.arange(length))
        lengths = [len(prompt) for prompt in prompts]
        mask = _padding_mask(lengths, self.dtype)
        for layer in self._encoder:
            x = layer(x, len(prompts), max(lengths), mask)
        return x

    def _cross_mask(self, batch: Pass) -> torch.Tensor | None:
        """Additive mask [B, 1, 1, S] that hides the padding behind each source; the same from pass to pass."""
        lengths = tuple(self.source_lengths[batch.rows])
        if lengths != self._source_mask_of[0]:
            self._source_mask_of = (lengths, _padding_mask(lengths, self.dtype))
        return self._source_mask_of[1]


class _Embedding:
    """Token plus position, normalised: [.., width] flat."""

    def __init__(self, stack: Any) -> None:
        self._tokens = stack.embed_tokens.weight * stack.embed_tokens.embed_scale
        self._positions = stack.embed_positions.weight[stack.embed_positions.offset :]
        self._norm = _Norm(stack.layernorm_embedding)

    def __call__(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = F.embedding(ids, self._tokens) + F.embedding(positions, self._positions)
        return self._norm(x.view(-1, x.shape[-1]))


class _Norm:
    def __init__(self, norm: nn.LayerNorm) -> None:
        self._arguments = (norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.layer_norm(x, *self._arguments)


class _FeedForward:
    """Two maps and the norm behind their residual."""

    def __init__(self, layer: Any, activation: str, form: Form) -> None:
        self._widen = form(layer.fc1.weight, layer.fc1.bias, activation)
        self._narrow = _joined([layer.fc2], form)
        self._norm = _Norm(layer.final_layer_norm)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._norm(self._narrow.plus(self._widen(x), x))


class _EncoderLayer:
    def __init__(self, layer: Any, activation: str, form: Form) -> None:
        attention = layer.self_attn
        self._heads = attention.num_heads
        self._project = _joined([attention.q_proj, attention.k_proj, attention.v_proj], form)
        self._merge = _joined([attention.out_proj], form)
        self._norm = _Norm(layer.self_attn_layer_norm)
        self._feed_forward = _FeedForward(layer, activation, form)

    def __call__(
        self, x: torch.Tensor, num_rows: int, length: int, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """`length`: the longest source's; what lies behind it in x [B*S, width] is padding of all rows."""
        queries, keys, values = _heads(self._project(x), num_rows, 3, self._heads)
        seen = F.scaled_dot_product_attention(queries, keys[:, :, :length], values[:, :, :length], mask)
        x = self._norm(self._merge.plus(_flat(seen), x))
        return self._feed_forward(x)


class _DecoderLayer:
    def __init__(self, layer: Any, activation: str, form: Form) -> None:
        own, cross = layer.self_attn, layer.encoder_attn
        self._heads = own.num_heads
        self._project = _joined([own.q_proj, own.k_proj, own.v_proj], form)
        self._merge = _joined([own.out_proj], form)
        self._norm = _Norm(layer.self_attn_layer_norm)
        self._ask = _joined([cross.q_proj], form)
        self._merge_cross = _joined([cross.out_proj], form)
        self._norm_cross = _Norm(layer.encoder_attn_layer_norm)
        self._feed_forward = _FeedForward(layer, activation, form)

    def __call__(
        self,
        x: torch.Tensor,
        stored: torch.Tensor,
        slots: torch.Tensor | int,
        mask: torch.Tensor,
        cross: torch.Tensor,
        cross_mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """`stored` [2, B, H, capacity, D] takes in the new keys and values at `slots`; `cross` [2, B, H, S, D]."""
        num_rows, length = stored.shape[1], mask.shape[-1]
        projected = _heads(self._project(x), num_rows, 3, self._heads)
        _write(stored, slots, projected[1:])
        keys, values = stored[:, :, :, :length].unbind(0)
        seen = F.scaled_dot_product_attention(projected[0], keys, values, mask)
        x = self._norm(self._merge.plus(_flat(seen), x))
        (queries,) = _heads(self._ask(x), num_rows, 1, self._heads)
        keys, values = cross.unbind(0)
        seen = F.scaled_dot_product_attention(queries, keys, values, cross_mask)
        x = self._norm_cross(self._merge_cross.plus(_flat(seen), x))
        return self._feed_forward(x)


def _joined(maps: Seq[nn.Linear], form: Form) -> Linear:
    """Several maps of the same input as one."""
    biases: list[torch.Tensor] = [
        m.bias if m.bias is not None else m.weight.new_zeros(m.out_features) for m in maps
    ]
    return form(torch.cat([m.weight.detach() for m in maps]), torch.cat(biases), None)


def _heads(x: torch.Tensor, num_rows: int, parts: int, heads: int) -> torch.Tensor:
    """[B*T, parts*H*D] to [parts, B, H, T, D], a view."""
    split = x.view(num_rows, x.shape[0] // num_rows, parts, heads, x.shape[1] // (parts * heads))
    return split.permute(2, 0, 3, 1, 4)


def _flat(x: torch.Tensor) -> torch.Tensor:
    """[B, H, T, D] to [B*T, H*D]."""
    batch, heads, queries, head_dim = x.shape
    return x.transpose(1, 2).reshape(batch * queries, heads * head_dim)


def _write(stored: torch.Tensor, slots: torch.Tensor | int, new: torch.Tensor) -> None:
    """Keys and values [2, B, H, T, D] into `stored`, from one offset on or at the slots [B, T] of each row."""
    if isinstance(slots, int):
        stored[:, :, :, slots : slots + new.shape[3]] = new
    else:
        stored.scatter_(3, slots[None, :, None, :, None].expand_as(new), new)


def _padding_mask(lengths: Seq[int], dtype: torch.dtype) -> torch.Tensor | None:
    """Additive mask [B, 1, 1, S] over the longest length; nothing where all are equally long."""
    longest = max(lengths)
    if min(lengths) == longest:
        return None
    hidden = torch.arange(longest) >= torch.tensor(lengths)[:, None]
    mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, torch.finfo(dtype).min)
    return mask[:, None, None, :]


def _bias_or_none(bias: torch.Tensor) -> torch.Tensor | None:
    return bias.flatten() if bool(bias.any()) else None
