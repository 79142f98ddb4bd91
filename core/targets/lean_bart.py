"""BART on the CPU in few calls: the same weights as transformers' module, a third of its time on small models.

Knows BART's layers (layer norm behind each residual, learned positions, one table of embeddings scaled by
`scale_embedding`). Rows are kept flat, [M, width], without the padding between them, except inside attention.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import BartForConditionalGeneration

from core.packing import Pass
from core.targets.base import PassOutput, Target, _doubled
from core.targets.encoder_decoder import EncoderDecoder
from core.targets.flat_rows import (
    FlatRows,
    LengthGroup,
    flat_bucket,
    flattened,
    length_groups,
    spread,
    write_behind,
)
from core.targets.lean import Lean, flat_inputs, offsets_of
from core.targets.linear import Form, fastest_linear, joined


class LeanBart(Lean, EncoderDecoder):
    """`BartForConditionalGeneration` on the CPU. `hidden` of a pass is the decoder's last output."""

    def __init__(self, model: BartForConditionalGeneration, form: Form = fastest_linear) -> None:
        """`form` makes every matrix; `Int8Linear` trades exactness for speed."""
        super().__init__(model)
        self.form = form
        parts = model.model
        activation = model.config.activation_function
        self._encoder = [_EncoderLayer(layer, activation, form) for layer in parts.encoder.layers]
        self._decoder = [_DecoderLayer(layer, activation, form) for layer in parts.decoder.layers]
        self._embed_source = _Embedding(parts.encoder)
        self._embed_target = _Embedding(parts.decoder)
        attentions = [layer.encoder_attn for layer in parts.decoder.layers]
        # Keys and values of all decoder layers in one product.
        self._cross_keys_values = joined([p for a in attentions for p in (a.k_proj, a.v_proj)], form)
        self._head = form(model.lm_head.weight, _bias_or_none(model.final_logits_bias), None)
        self._source_mask_of: tuple[tuple[int, ...], torch.Tensor | None] = ((), None)

    def _take_over(self, decoder: Any) -> None:
        """The decoder is left alone; it does not run."""

    def join(self, first_slot: int, prompts: Seq[Seq[int]]) -> list[int]:
        lengths = [len(prompt) for prompt in prompts]
        groups = length_groups(lengths)
        both = self._cross_keys_values(self._encode(prompts, groups))
        needed = _doubled(self.cross_cache.num_slots, first_slot + len(prompts))
        self.cross_cache.reserve(needed, _doubled(max(self.cross_cache.capacity, 32), max(lengths)))
        layers, _, _, heads, _, head_dim = self.cross_cache.data.shape
        stored = self.cross_cache.data[:, :, first_slot:]
        for group in groups:
            shape = (len(group.rows), group.width, layers, 2, heads, head_dim)
            new = both[group.start : group.end].view(shape).permute(2, 3, 0, 4, 1, 5)
            stored[:, :, group.rows, :, : group.width] = new
        self.source_lengths[first_slot:] = lengths
        return Target.join(self, first_slot, prompts)

    def forward(self, batch: Pass, *, need_hidden: bool = False) -> PassOutput:
        flat, tokens, positions = flat_inputs(batch)
        x = self._embed_target(tokens, positions)
        mask, cross_mask = batch.attention_mask(), self._cross_mask(batch)
        slots = batch.write_slots()
        own = self.cache.layers(batch.rows)
        cross = self.cross_cache.layers(batch.rows, max(self.source_lengths[batch.rows]))
        for layer, stored, seen in zip(self._decoder, own, cross, strict=True):
            x = layer(x, flat, stored, slots, mask, seen, cross_mask)
        return PassOutput(self._head(x), offsets_of(batch, flat), x if need_hidden else None)

    def _encode(self, prompts: Seq[Seq[int]], groups: Seq[LengthGroup]) -> torch.Tensor:
        """States [M, width] of the sources, group after group."""
        pad = self.config.pad_token_id or 0
        size = flat_bucket(groups[-1].end)
        ids, positions = [pad] * size, [0] * size
        for group in groups:
            for start, row in zip(range(group.start, group.end, group.width), group.rows, strict=True):
                end = start + len(prompts[row])
                ids[start:end] = prompts[row]
                positions[start:end] = range(end - start)
        x = self._embed_source(torch.tensor(ids), torch.tensor(positions))
        masks = [_padding_mask(group.lengths, self.dtype) for group in groups]
        for layer in self._encoder:
            x = layer(x, groups, masks)
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
        self._narrow = joined([layer.fc2], form)
        self._norm = _Norm(layer.final_layer_norm)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._norm(self._narrow.plus(self._widen(x), x))


class _EncoderLayer:
    def __init__(self, layer: Any, activation: str, form: Form) -> None:
        attention = layer.self_attn
        self._heads = attention.num_heads
        self._project = joined([attention.q_proj, attention.k_proj, attention.v_proj], form)
        self._merge = joined([attention.out_proj], form)
        self._norm = _Norm(layer.self_attn_layer_norm)
        self._feed_forward = _FeedForward(layer, activation, form)

    def __call__(
        self, x: torch.Tensor, groups: Seq[LengthGroup], masks: Seq[torch.Tensor | None]
    ) -> torch.Tensor:
        """`x` [M, width] holds the groups' rows; what lies behind the last group is padding."""
        projected = self._project(x)
        seen = torch.zeros_like(x)
        for group, mask in zip(groups, masks, strict=True):
            own = projected[group.start : group.end]
            queries, keys, values = _heads(own, len(group.rows), 3, self._heads)
            attended = F.scaled_dot_product_attention(queries, keys, values, mask)
            seen[group.start : group.end] = flattened(attended)
        x = self._norm(self._merge.plus(seen, x))
        return self._feed_forward(x)


class _DecoderLayer:
    def __init__(self, layer: Any, activation: str, form: Form) -> None:
        own, cross = layer.self_attn, layer.encoder_attn
        self._heads = own.num_heads
        self._project = joined([own.q_proj, own.k_proj, own.v_proj], form)
        self._merge = joined([own.out_proj], form)
        self._norm = _Norm(layer.self_attn_layer_norm)
        self._ask = joined([cross.q_proj], form)
        self._merge_cross = joined([cross.out_proj], form)
        self._norm_cross = _Norm(layer.encoder_attn_layer_norm)
        self._feed_forward = _FeedForward(layer, activation, form)

    def __call__(
        self,
        x: torch.Tensor,
        flat: FlatRows | None,
        stored: torch.Tensor,
        slots: torch.Tensor | int,
        mask: torch.Tensor,
        cross: torch.Tensor,
        cross_mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """`stored` [2, B, H, capacity, D] takes in the new keys and values at `slots`; `cross` [2, B, H, S, D]."""
        num_rows, length = stored.shape[1], mask.shape[-1]
        projected = _heads(spread(self._project(x), flat), num_rows, 3, self._heads)
        write_behind(stored, slots, projected[1:])
        keys, values = stored[:, :, :, :length].unbind(0)
        seen = F.scaled_dot_product_attention(projected[0], keys, values, mask)
        x = self._norm(self._merge.plus(flattened(seen, flat), x))
        (queries,) = _heads(spread(self._ask(x), flat), num_rows, 1, self._heads)
        keys, values = cross.unbind(0)
        seen = F.scaled_dot_product_attention(queries, keys, values, cross_mask)
        x = self._norm_cross(self._merge_cross.plus(flattened(seen, flat), x))
        return self._feed_forward(x)


def _heads(x: torch.Tensor, num_rows: int, parts: int, heads: int) -> torch.Tensor:
    """[B*T, parts*H*D] to [parts, B, H, T, D], a view."""
    split = x.view(num_rows, x.shape[0] // num_rows, parts, heads, x.shape[1] // (parts * heads))
    return split.permute(2, 0, 3, 1, 4)


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
