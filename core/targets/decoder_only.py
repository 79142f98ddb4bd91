"""Decoder-only transformers models (`AutoModelForCausalLM`) with ragged rows and trees.

Knows how causal models take positions and masks. The model's code runs as it is; only its cache is ours.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import torch
from transformers import PreTrainedModel

from core.cache import RaggedCache
from core.packing import Pass
from core.targets.base import PassOutput, Target
from core.targets.cache_view import SelfAttentionView
from core.targets.grouped_attention import use_grouped_attention
from core.targets.limits import (
    context_length,
    end_token_ids,
    require_plain_attention,
    suppressed_token_ids,
)


class DecoderOnly(Target):
    """A causal language model. `hidden` of a pass is the last layer's output, after the final norm."""

    def __init__(self, model: PreTrainedModel) -> None:
        config = model.config.get_text_config(decoder=True)
        require_plain_attention(model, config)
        self.model = model.eval()
        if model.device.type == "cuda":
            use_grouped_attention(model)
        self.config = config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        super().__init__(
            cache=RaggedCache(config.num_hidden_layers, heads, head_dim, model.dtype, model.device),
            vocab_size=model.get_output_embeddings().weight.shape[0],
            max_length=context_length(config),
            eos_token_ids=end_token_ids(model),
            dtype=model.dtype,
            device=model.device,
        )
        self.suppressed_token_ids = suppressed_token_ids(model)
        self._layer_types = set(getattr(config, "layer_types", None) or ())
        self._window = getattr(config, "sliding_window", None)

    def start_tokens(self, prompt_ids: Seq[int]) -> list[int]:
        """The prompt itself. Raises ValueError for an empty one: there is nothing to continue."""
        if not prompt_ids:
            raise ValueError("the prompt is empty; a decoder-only model needs at least one token to continue")
        return list(prompt_ids)

    def forward(self, batch: Pass, *, need_hidden: bool = False) -> PassOutput:
        return self.runner.run(self._call, batch, need_hidden)

    def _call(self, batch: Pass, need_hidden: bool) -> PassOutput:
        out = self.model(**self._inputs(batch), output_hidden_states=need_hidden)
        return PassOutput.padded(out.logits, out.hidden_states[-1] if need_hidden else None)

    def read(self, batch: Pass) -> None:
        self.model.base_model(**self._inputs(batch.to(self.device)))

    def _inputs(self, batch: Pass) -> dict[str, Any]:
        return {
            "input_ids": batch.tokens,
            "position_ids": batch.positions,
            "attention_mask": self._mask(batch),
            "past_key_values": SelfAttentionView(self.cache, batch),
            "use_cache": True,
        }

    def _mask(self, batch: Pass) -> torch.Tensor | dict[str, torch.Tensor]:
        """One mask, or one for each kind of layer where the model mixes full and sliding attention."""
        if self._window is None or self._layer_types == {"full_attention"}:
            return batch.attention_mask()
        sliding = batch.sliding_mask(self._window)
        if len(self._layer_types) < 2:
            return sliding
        return {"full_attention": batch.attention_mask(), "sliding_attention": sliding}
