"""Llama on the CPU in few calls: the same weights as transformers' module, laid out anew for the passes of a few rows.

Knows Llama's layers (root mean square norms before each part, rotary positions, gated feed-forward, keys and values
that query heads may share). Rows are kept flat, [M, width], without the padding between them, except inside attention.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F
from transformers import LlamaForCausalLM
from transformers.activations import ACT2FN

from core.packing import Pass
from core.targets.base import PassOutput
from core.targets.decoder_only import DecoderOnly
from core.targets.flat_rows import flattened, spread, write_behind
from core.targets.lean import Lean, flat_inputs, offsets_of
from core.targets.linear import Form, fastest_linear, joined


class LeanLlama(Lean, DecoderOnly):
    """`LlamaForCausalLM` on the CPU. `hidden` of a pass is the last layer's output, after the final norm."""

    prefill_chunk = 1024

    def __init__(self, model: LlamaForCausalLM, form: Form = fastest_linear) -> None:
        """`form` makes every matrix; `Int8Linear` trades exactness for speed."""
        super().__init__(model)
        self.form = form
        self._layers = [_Layer(layer, self.config, form) for layer in model.model.layers]
        self._embeddings = model.model.embed_tokens.weight
        self._rotary = model.model.rotary_emb
        self._norm = _Norm(model.model.norm)
        self._head = joined([model.lm_head], form)

    def forward(self, batch: Pass, *, need_hidden: bool = False) -> PassOutput:
        shared = _Shared(batch, self._rotary, self.dtype)
        x = F.embedding(shared.tokens, self._embeddings)
        for layer, stored in zip(self._layers, self.cache.layers(batch.rows), strict=True):
            x = layer(x, stored, shared)
        x = self._norm(x)
        return PassOutput(self._head(x), offsets_of(batch, shared.flat), x if need_hidden else None)

    def read(self, batch: Pass) -> None:
        """Of the last layer only keys and values are wanted."""
        shared = _Shared(batch, self._rotary, self.dtype)
        x = F.embedding(shared.tokens, self._embeddings)
        *stored, last = self.cache.layers(batch.rows)
        for layer, own in zip(self._layers[:-1], stored, strict=True):
            x = layer(x, own, shared)
        self._layers[-1].remember(x, last, shared)


class _Shared:
    """What is the same for all layers of a pass: places, rotation, mask."""

    def __init__(self, batch: Pass, rotary: Any, dtype: torch.dtype) -> None:
        self.num_rows, num_queries = batch.tokens.shape
        self.flat, self.tokens, positions = flat_inputs(batch)
        #: [M, 1, D / 2]; both halves of a head turn by the same angles.
        self.cos, self.sin = (
            part[0, :, None, : part.shape[-1] // 2]
            for part in rotary(torch.empty(0, dtype=dtype), positions[None])
        )
        self.slots = batch.write_slots()
        self._mask: torch.Tensor | None = None
        self._length = num_queries
        # The beginning of a prompt needs no mask: half of what one would hide is then not even computed.
        if not (batch.is_chain and isinstance(self.slots, int) and self.slots == 0):
            self._mask, self._length = batch.attention_mask(), batch.key_length

    def turn(self, heads: torch.Tensor) -> None:
        """Rotate heads [M, H, D] by their positions, in place."""
        first, second = heads.chunk(2, dim=-1)
        turned = (first * self.cos).addcmul_(second, self.sin, value=-1)
        second.mul_(self.cos).addcmul_(first, self.sin)
        first.copy_(turned)

    def attend(self, queries: torch.Tensor, stored: torch.Tensor) -> torch.Tensor:
        """What queries [B, heads, T, D] see in `stored` [2, B, H, capacity, D], as [B, heads, T, D]."""
        keys, values = stored[:, :, :, : self._length].unbind(0)
        group = queries.shape[1] // keys.shape[1]
        if self._mask is None:
            return F.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=group > 1)
        if group == 1:
            return F.scaled_dot_product_attention(queries, keys, values, self._mask)
        # Heads that share keys and values stand behind one another as queries of one head.
        stacked = queries.reshape(len(queries), keys.shape[1], -1, queries.shape[-1])
        mask = self._mask.repeat(1, 1, group, 1)
        return F.scaled_dot_product_attention(stacked, keys, values, mask).view(queries.shape)


class _Layer:
    def __init__(self, layer: Any, config: Any, form: Form) -> None:
        own, inner = layer.self_attn, layer.mlp
        self._num_heads, self._head_dim = config.num_attention_heads, own.head_dim
        self._num_shared = config.num_key_value_heads
        self._norm = _Norm(layer.input_layernorm)
        self._project = joined([own.q_proj, own.k_proj, own.v_proj], form)
        self._merge = joined([own.o_proj], form)
        self._norm_inner = _Norm(layer.post_attention_layernorm)
        self._widen = joined([inner.gate_proj, inner.up_proj], form)
        self._activation = ACT2FN[config.hidden_act]
        self._narrow = joined([inner.down_proj], form)

    def __call__(self, x: torch.Tensor, stored: torch.Tensor, shared: _Shared) -> torch.Tensor:
        """`stored` [2, B, H, capacity, D] takes in the new keys and values."""
        queries = self.remember(x, stored, shared)
        x = self._merge.plus(flattened(shared.attend(queries, stored), shared.flat), x)
        gate, up = self._widen(self._norm_inner(x)).chunk(2, dim=-1)
        return self._narrow.plus(self._activation(gate).mul_(up), x)

    def remember(self, x: torch.Tensor, stored: torch.Tensor, shared: _Shared) -> torch.Tensor:
        """Write the keys and values of `x` [M, width]; returns its queries [B, heads, T, D]."""
        projected = self._project(self._norm(x))
        heads = projected.view(len(projected), -1, self._head_dim)
        shared.turn(heads[:, : self._num_heads + self._num_shared])
        grid = spread(heads, shared.flat)
        grid = grid.view(shared.num_rows, -1, *grid.shape[1:]).transpose(1, 2)
        new = grid[:, self._num_heads :].unflatten(1, (2, self._num_shared)).transpose(0, 1)
        write_behind(stored, shared.slots, new)
        return grid[:, : self._num_heads]


class _Norm:
    """Llama's norm computes in float32, whatever number type it is given."""

    def __init__(self, norm: Any) -> None:
        self._weight, self._epsilon = norm.weight, norm.variance_epsilon

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        shape = self._weight.shape
        if x.dtype is torch.float32:
            return F.rms_norm(x, shape, self._weight, self._epsilon)
        return self._weight * F.rms_norm(x.float(), shape, None, self._epsilon).to(x.dtype)
