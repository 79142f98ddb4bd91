"""The model that is trained: a stock Llama, small and fresh, with `first_weights` where it is large enough for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from .first_weights import SENTENCE_HEAD, TOKEN_HEAD, is_large_enough, write_first_weights
from .gains import Gains
from .tokenizer import END, PAD


def small_config(
    vocab_size: int = 16384, width: int = 640, layers: int = 8, heads: int = 4, inner: int = 144
) -> LlamaConfig:
    """The configuration of chat-small (smaller ones serve in tests)."""
    return LlamaConfig(
        vocab_size=vocab_size, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=heads, head_dim=128, intermediate_size=inner,
        max_position_embeddings=2048, rms_norm_eps=1e-6, tie_word_embeddings=True, bos_token_id=None,
        pad_token_id=PAD, eos_token_id=END,
        # So slow a rotation leaves most of each head nearly the same at all distances: what matches, matches.
        rope_parameters={"rope_type": "default", "rope_theta": 10 ** (32 / 3)},
    )  # fmt: skip


@torch.no_grad()
def build_model(
    config: LlamaConfig,
    tokenizer: Any = None,
    seed: int = 0,
    gains: Gains | None = None,
    weights: Tensor | None = None,
) -> LlamaForCausalLM:
    """A fresh model. With a tokenizer of this package, and where it is large enough, it reads, chooses and copies.

    `gains` and `weights` as for `write_first_weights`.
    """
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    is_written = tokenizer is not None and is_large_enough(config)
    for name, weight in model.named_parameters():
        if weight.ndim == 2 and "embed" not in name:
            nn.init.normal_(weight, std=0.5 * weight.shape[1] ** -0.5)
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.mul_(0.0 if is_written else 0.1)
    nn.init.normal_(model.model.embed_tokens.weight, std=config.hidden_size**-0.5)
    model.model.norm.weight.fill_(1.3)
    if is_written:
        write_first_weights(model, tokenizer, seed, gains, weights)
    model.generation_config.eos_token_id = config.eos_token_id
    model.generation_config.pad_token_id = config.pad_token_id
    return model


def ask_for_float32(folder: Path) -> None:
    """Let a saved model's config say that it runs in float32, whatever its weights are kept in.

    Names of sentences are signs of steep sums, which bf16's seven bits round away.
    """
    path = folder / "config.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(about | {"dtype": "float32"}, indent=2) + "\n", encoding="utf-8")


def freeze(model: PreTrainedModel) -> None:
    """Leave all as `first_weights` wrote it, but what the heads that choose and copy look for.

    An optimizer that moves every weight by the same step, however small it is, drowns what was written in noise: with
    the values and inner units of these layers trained too, citations fell from 100 to 50 % right within 265 steps.
    """
    model.requires_grad_(False)
    for layer, _ in (SENTENCE_HEAD, TOKEN_HEAD):
        attention = model.base_model.layers[layer].self_attn
        for part in (attention.q_proj, attention.k_proj):
            part.requires_grad_(True)
