"""Attention whose query heads share keys and values, without a copy of these for every query head.

Knows tensors and transformers' table of attention functions. transformers' own `sdpa` repeats keys and values
whenever a pass has a mask: at a long context that is most of what a pass moves. Here the query heads of a group
stand behind one another as queries of one head, which see the same keys.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "grouped_sdpa"
#: Prompt reading has queries enough to pay for the copies, and a mask too large to repeat.
_MAX_QUERIES = 128


def use_grouped_attention(model: PreTrainedModel) -> None:
    """Let a model that would run `sdpa` over grouped heads run this; any other stays as it is."""
    config = model.config.get_text_config(decoder=True)
    heads = getattr(config, "num_key_value_heads", None)
    if model.config._attn_implementation != "sdpa" or not heads or heads == config.num_attention_heads:
        return
    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Output [B, T, heads, D] of `query` [B, heads, T, D] over `key` and `value` [B, H, L, D]."""
    num_rows, num_heads, num_queries, _ = query.shape
    group = num_heads // key.shape[1]
    is_shared = attention_mask is not None and attention_mask.shape[1] == 1
    if group == 1 or not is_shared or num_queries > _MAX_QUERIES:
        output: tuple[torch.Tensor, torch.Tensor | None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
        return output
    assert attention_mask is not None
    stacked = torch.nn.functional.scaled_dot_product_attention(
        query.reshape(num_rows, -1, group * num_queries, query.shape[-1]),
        key,
        value,
        attn_mask=attention_mask.repeat(1, 1, group, 1) if num_queries > 1 else attention_mask,
        dropout_p=dropout,
        scale=scaling,
    )
    return stacked.view(num_rows, num_heads, num_queries, -1).transpose(1, 2).contiguous(), None
