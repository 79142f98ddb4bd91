"""Models with random weights, made where they will run, and a tokenizer that has nothing to say.

Nothing is read from disk or the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

from core.targets.base import Target
from core.targets.cuda_graphs import use_cuda_graphs
from core.targets.decoder_only import DecoderOnly
from core.targets.encoder_decoder import EncoderDecoder
from core.targets.runners import call_again

SMALL_VOCAB = 96
_IDS = {"vocab_size": SMALL_VOCAB, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_CAUSAL = {
    **_IDS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
_MIXED = {"head_dim": 16, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
_GPT2 = {**_IDS, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512}
_T5 = {
    **_IDS,
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 96,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
_BART = {
    **_IDS,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "max_position_embeddings": 512,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}

#: family -> (model class, configuration class, settings)
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", _CAUSAL),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", _CAUSAL),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**_CAUSAL, **_MIXED}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", _GPT2),
    "t5": ("T5ForConditionalGeneration", "T5Config", _T5),
    "bart": ("BartForConditionalGeneration", "BartConfig", _BART),
}


@dataclass(frozen=True)
class LlamaShape:
    """The sizes of a Llama; a vocabulary of 32,000 and no end token unless said otherwise."""

    name: str
    hidden_size: int
    num_layers: int
    num_heads: int
    num_key_value_heads: int
    ffn_size: int
    vocab_size: int = 32_000

    @property
    def num_parameters(self) -> int:
        kv_size = self.hidden_size * self.num_key_value_heads // self.num_heads
        layer = 2 * self.hidden_size * (self.hidden_size + kv_size) + 3 * self.hidden_size * self.ffn_size
        return self.num_layers * layer + 2 * self.vocab_size * self.hidden_size


TINY = LlamaShape("llama-tiny", 32, 2, 4, 2, 48, vocab_size=512)
SHAPES = (
    LlamaShape("llama-7b", 4096, 32, 32, 32, 11_008),
    LlamaShape("llama-7b-kv8", 4096, 32, 32, 8, 11_008),
    LlamaShape("llama-1b", 2048, 16, 32, 8, 8_192),
    LlamaShape("llama-160m", 768, 12, 12, 12, 3_072),
)


class SilentTokenizer:
    """Ids in, no text out: prompts are given as ids and nobody reads the outputs."""

    def encode(self, text: str, **options: Any) -> list[int]:
        raise ValueError("give the prompt as token ids; this tokenizer knows no words")

    def decode(self, ids: Any, **options: Any) -> str:
        return ""


def small_model(family: str, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """A random model of a family, the same on every device; drawn wide, so that its outputs vary."""
    model_class, config_class, settings = FAMILIES[family]
    torch.manual_seed(0)
    model: Any = getattr(transformers, model_class)(getattr(transformers, config_class)(**settings))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                is_table = parameter.shape[0] >= SMALL_VOCAB or "relative_attention_bias" in name
                # GPT-2 stores its projections transposed: the first size is the one that is summed over.
                width = parameter.shape[0 if family == "gpt2" else -1]
                std = 1.0 if is_table and parameter.shape[0] != 192 else 1.4 / width**0.5
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * std)
    ready: PreTrainedModel = model.to(device=device, dtype=dtype).eval().requires_grad_(False)
    return ready


def big_model(shape: LlamaShape, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """A Llama of that shape, drawn on the device itself: seconds for seven billion weights."""
    config = transformers.LlamaConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.ffn_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_key_value_heads,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    torch.manual_seed(0)
    with torch.device(device), _default_dtype(dtype):
        model: Any = transformers.LlamaForCausalLM(config)
    model.generation_config.eos_token_id = None
    ready: PreTrainedModel = model.to(device=device, dtype=dtype).eval().requires_grad_(False)
    return ready


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def adapter(model: PreTrainedModel, has_graphs: bool) -> Target:
    """The general adapter of a model; on a CPU the calls that graphs would replay are made again."""
    target = EncoderDecoder(model) if model.config.is_encoder_decoder else DecoderOnly(model)
    if has_graphs:
        switch_on_graphs(target)
    return target


def switch_on_graphs(target: Target) -> None:
    if target.device.type == "cuda":
        use_cuda_graphs(target)
    else:
        target.use_static_shapes(call_again)
