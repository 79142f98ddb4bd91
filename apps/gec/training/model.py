"""The model that is trained: a stock BART, deep encoder, shallow decoder, started so that it copies."""

from __future__ import annotations

import math

import torch
from torch import nn
from transformers import BartConfig, BartForConditionalGeneration

from .tokenizer import BOS, EOS, PAD


def small_config(vocab_size: int = 8192, width: int = 256, encoder: int = 6, decoder: int = 2) -> BartConfig:
    """The configuration of gec-small (smaller ones serve in tests)."""
    return BartConfig(
        vocab_size=vocab_size, d_model=width, encoder_layers=encoder, decoder_layers=decoder,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        activation_function="gelu", max_position_embeddings=256, dropout=0.0, attention_dropout=0.0,
        activation_dropout=0.0, scale_embedding=False, tie_word_embeddings=True, bos_token_id=BOS,
        pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=EOS, forced_eos_token_id=None,
        forced_bos_token_id=None,
    )  # fmt: skip


def position_table(count: int, width: int, heads: int) -> torch.Tensor:
    """Sinusoids laid out so that every head's slice holds the whole range of wavelengths."""
    pairs = width // 2
    rates = torch.exp(torch.linspace(math.log(3.0), math.log(0.02), pairs))
    # Pair p goes to head p % heads.
    order = torch.arange(pairs).view(pairs // heads, heads).t().reshape(-1)
    angles = torch.arange(count)[:, None] * rates[order][None, :]
    return torch.stack((angles.sin(), angles.cos()), dim=-1).reshape(count, width)


def build_model(config: BartConfig, seed: int = 0) -> BartForConditionalGeneration:
    """A fresh model whose decoder looks at the source token of the same place from the first step."""
    torch.manual_seed(seed)
    model = BartForConditionalGeneration(config)
    inner = model.model
    width, std = config.d_model, 0.03
    table = position_table(config.max_position_embeddings, width, config.decoder_attention_heads)
    with torch.no_grad():
        nn.init.normal_(inner.shared.weight, std=std)
        for side in (inner.encoder, inner.decoder):
            offset = side.embed_positions.weight.shape[0] - config.max_position_embeddings
            side.embed_positions.weight.zero_()
            # A sinusoid's root mean square is 0.707; both parts of the sum start equally loud.
            side.embed_positions.weight[offset:] = table * (std / 0.707)
        cross = inner.decoder.layers[0].encoder_attn
        for layer, gain in (
            (cross.q_proj, 2.0),
            (cross.k_proj, 2.0),
            (cross.v_proj, 1.0),
            (cross.out_proj, 2.0),
        ):
            layer.weight.mul_(0.5).add_(torch.eye(width) * gain)
    model.generation_config.max_length = config.max_position_embeddings
    return model
