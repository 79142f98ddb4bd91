"""A causal model of random weights: its text is noise, its passes take as long as a trained one's. Reads no files."""

from __future__ import annotations

from typing import Any


def random_llama(vocab_size: int, hidden_size: int = 64, num_layers: int = 2) -> Any:
    """A `LlamaForCausalLM`, the same for the same arguments; it never writes an end token."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocab_size, hidden_size=hidden_size, intermediate_size=2 * hidden_size,
        num_hidden_layers=num_layers, num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=8192,
        eos_token_id=None, bos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval().requires_grad_(False)
