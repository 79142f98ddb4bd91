"""Tiny random models of the real transformers classes, and tokenizers built in memory.

Embeddings and projections are drawn wide, so that outputs vary from token to token instead of settling on one.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, WordLevel
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from core.targets.base import Target
from core.targets.decoder_only import DecoderOnly
from core.targets.encoder_decoder import EncoderDecoder
from core.targets.registry import target_for

VOCAB = 96
PAD, BOS, EOS, UNK = 0, 1, 2, 3
FIRST_WORD = 4

_SPECIAL = {"tie_word_embeddings": False, "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
_CAUSAL = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    **_SPECIAL,
}
_OPT = {
    "hidden_size": 32,
    "word_embed_proj_dim": 32,
    "ffn_dim": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
}
_BART = {
    "vocab_size": VOCAB,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 256,
    "decoder_start_token_id": EOS,
    "forced_eos_token_id": None,
    **_SPECIAL,
}
_T5 = {
    "vocab_size": VOCAB,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
    "decoder_start_token_id": PAD,
    **_SPECIAL,
}
#: Two layers, one of each kind, and a window much shorter than the texts.
_MIXED = {
    "head_dim": 8,
    "sliding_window": 6,
    "layer_types": ["sliding_attention", "full_attention"],
    "attn_implementation": "eager",
}

#: name -> (model class, configuration class, settings)
DECODER_ONLY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", _CAUSAL),
    # Llama again, through transformers' own module instead of the lean forward.
    "llama-stock": ("LlamaForCausalLM", "LlamaConfig", _CAUSAL),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**_CAUSAL, "sliding_window": 6}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", _CAUSAL),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**_CAUSAL, "head_dim": 8}),
    "gemma2": (
        "Gemma2ForCausalLM",
        "Gemma2Config",
        {**_CAUSAL, **_MIXED, "attn_logit_softcapping": 4.0, "final_logit_softcapping": 8.0},
    ),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**_CAUSAL, **_MIXED}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {**_CAUSAL, "sliding_window": 6}),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, **_SPECIAL},
    ),
    "opt": ("OPTForCausalLM", "OPTConfig", {**_OPT, "vocab_size": VOCAB, **_SPECIAL}),
}
ENCODER_DECODER: dict[str, tuple[str, str, dict[str, Any]]] = {
    "t5": ("T5ForConditionalGeneration", "T5Config", _T5),
    "t5-gated": (
        "T5ForConditionalGeneration",
        "T5Config",
        {**_T5, "feed_forward_proj": "gated-gelu"},
    ),
    "bart": ("BartForConditionalGeneration", "BartConfig", _BART),
    # BART again, through transformers' own module instead of the lean forward.
    "bart-stock": ("BartForConditionalGeneration", "BartConfig", _BART),
    "mbart": ("MBartForConditionalGeneration", "MBartConfig", {**_BART, "scale_embedding": True}),
    "m2m100": (
        "M2M100ForConditionalGeneration",
        "M2M100Config",
        {**_BART, "pad_token_id": 1, "bos_token_id": 0},
    ),
    "marian": ("MarianMTModel", "MarianConfig", {**_BART, "decoder_start_token_id": PAD}),
    "pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", {**_BART, "decoder_start_token_id": PAD}),
}
FAMILIES = {**DECODER_ONLY, **ENCODER_DECODER}


def build(family: str, dtype: torch.dtype = torch.float64, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A random model of a family, the same for the same arguments; a fresh copy for every caller."""
    if changes:
        return _make(family, dtype, seed, **changes)
    return copy.deepcopy(_made(family, dtype, seed))


@cache
def _made(family: str, dtype: torch.dtype, seed: int) -> PreTrainedModel:
    return _make(family, dtype, seed)


def _make(family: str, dtype: torch.dtype, seed: int, **changes: Any) -> PreTrainedModel:
    model_class, config_class, settings = FAMILIES[family]
    return randomised(model_class, config_class, {**settings, **changes}, dtype, seed)


def randomised(
    model_class: str, config_class: str, settings: dict[str, Any], dtype: torch.dtype, seed: int = 0
) -> PreTrainedModel:
    settings = dict(settings)
    attention = settings.pop("attn_implementation", None)
    config = getattr(transformers, config_class)(**settings)
    if attention:
        config._attn_implementation = attention
    torch.manual_seed(seed)
    model: Any = getattr(transformers, model_class)(config)
    widen(model, seed)
    ready: PreTrainedModel = model.to(dtype).eval().requires_grad_(False)
    return ready


def widen(model: torch.nn.Module, seed: int) -> None:
    """Redraw matrices so that every layer matters; the padding token is never the best one."""
    generator = torch.Generator().manual_seed(seed)
    fixed = {
        p.data_ptr() for n, p in model.named_parameters() if "embed_positions" in n and not p.requires_grad
    }
    for name, parameter in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            # Signs keep a tied output head from repeating the token that was put in.
            with torch.no_grad():
                parameter.mul_(torch.randint(2, parameter.shape, generator=generator) * 2 - 1)
        if name.endswith("bias") and parameter.ndim == 1:
            with torch.no_grad():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
        if parameter.ndim < 2 or parameter.data_ptr() in fixed:
            continue
        is_embedding = parameter.shape[0] >= VOCAB or "relative_attention_bias" in name
        std = 1.0 if is_embedding else 1.4 / parameter.shape[-1] ** 0.5
        if "encoder_attn.out_proj" in name or "EncDecAttention.o." in name:
            std *= 0.3  # the source says the same at every step: it must not drown the token
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * std)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(0.5)
        model.get_output_embeddings().weight[model.config.get_text_config(decoder=True).pad_token_id] = 0


def target_of(family: str, dtype: torch.dtype = torch.float64, **changes: Any) -> Target:
    """The target that loading would choose for the family's model."""
    model = build(family, dtype, **changes)
    if not family.endswith("-stock"):
        return target_for(model)
    return EncoderDecoder(model) if family in ENCODER_DECODER else DecoderOnly(model)


@cache
def word_tokenizer() -> PreTrainedTokenizerFast:
    """Words `w4`, `w5`, ... separated by spaces; specials are skipped when decoding."""
    vocab = {"<pad>": PAD, "<s>": BOS, "</s>": EOS, "<unk>": UNK}
    vocab |= {f"w{i}": i for i in range(FIRST_WORD, VOCAB)}
    backend = tokenizers.Tokenizer(WordLevel(vocab, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )


#: Ids of the byte tokenizer: specials first, then one token for each byte, then a few merged ones.
BYTE_VOCAB = 4 + 256 + 6


@cache
def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level: most characters beyond ASCII need several tokens. A few merges as real vocabularies have."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("a", "n"), ("an", "d"), ("Ġ", "and")]
    pieces = ["<pad>", "<s>", "</s>", "<unk>", *alphabet, *(a + b for a, b in merges)]
    backend = tokenizers.Tokenizer(BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


@cache
def byte_fallback_tokenizer() -> PreTrainedTokenizerFast:
    """Characters that the vocabulary lacks become their bytes, as in Llama's: nearly all do."""
    pieces = [
        "<pad>",
        "<s>",
        "</s>",
        "<unk>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        "a",
        "b",
        "ab",
    ]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    backend = tokenizers.Tokenizer(
        BPE(vocab, [("a", "b")], byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    )
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def repetitive(length: int, seed: int) -> list[int]:
    """A prompt that says some of its phrases several times."""
    generator = torch.Generator().manual_seed(seed)

    def words(count: int) -> list[int]:
        drawn: list[int] = torch.randint(FIRST_WORD, VOCAB, (count,), generator=generator).tolist()
        return drawn

    phrases = [words(4), words(3), words(5)]
    text: list[int] = []
    while len(text) < length:
        text += phrases[int(torch.randint(3, (), generator=generator))]
    return text[:length]
