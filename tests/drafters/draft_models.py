"""Small draft models and trained parts for drafters that need some, half right about their targets."""

from __future__ import annotations

from functools import cache
from typing import Any

import tokenizers
import torch
from tokenizers import pre_tokenizers
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from core.drafters.eagle_head import EagleHead
from core.drafters.medusa_heads import MedusaHeads
from core.drafters.model_parts import ModelParts
from core.targets.base import Target
from core.targets.registry import target_for
from tests.core.models import FAMILIES, FIRST_WORD, UNK, VOCAB, build, word_tokenizer


def relative_of(target: Target, error: float = 0.1, seed: int = 1) -> Target:
    """A target that runs the same model with noise on its weights: it agrees often, but not always."""
    stock: Any = target.model  # type: ignore[attr-defined]
    family = next(name for name, (kind, _, _) in FAMILIES.items() if kind == type(stock).__name__)
    model = build(family, target.dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.add_(noise * error * parameter.std().nan_to_num())
    return target_for(model.to(target.device))


def options_for(name: str, target: Target) -> dict[str, Any]:
    """What a drafter of that name cannot be made without, and settings under which it drafts however slowly."""
    drafting = {"is_paced": False, "max_depth": 2}
    if name == "spec_infer":
        return {"models": [relative_of(target), relative_of(target, seed=2)], **drafting}
    if name in ("cascade", "draft_model"):
        return {"model": relative_of(target), **drafting}
    if name in ("early_exit", "layer_skip"):
        return drafting
    if name == "spec_dec":
        return {"model": relative_of(target), "mask_token_id": UNK}
    if name == "text_draft_model":
        return {"model": stranger_to(target), "tokenizer": shuffled_tokenizer(), **drafting}
    if name == "eagle":
        return {"model": eagle_head(target), **drafting}
    if name == "heads":
        return {"model": medusa_heads(target)}
    return {}


def stranger_to(target: Target, error: float = 0.1) -> Target:
    """A relative whose tokens have other numbers: those of `shuffled_tokenizer`."""
    relative: Any = relative_of(target, error)
    model = relative.model
    order = torch.argsort(torch.tensor(_shuffled()))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2 and parameter.shape[0] == VOCAB:
                parameter.copy_(parameter[order].clone())
    return target_for(model)


def _shuffled() -> list[int]:
    """The number of every word of `word_tokenizer` here; special tokens keep theirs."""
    words = torch.randperm(VOCAB - FIRST_WORD, generator=torch.Generator().manual_seed(5)) + FIRST_WORD
    return [*range(FIRST_WORD), *words.tolist()]


@cache
def shuffled_tokenizer() -> PreTrainedTokenizerFast:
    """The words of `word_tokenizer` under other numbers."""
    vocab = {piece: _shuffled()[token] for piece, token in word_tokenizer().get_vocab().items()}
    backend = tokenizers.Tokenizer(WordLevel(vocab, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def medusa_heads(target: Target, **sizes: Any) -> MedusaHeads:
    """Untrained: they say what the target said one place before."""
    parts = ModelParts.of(target)
    heads = MedusaHeads(parts.hidden_size, len(parts.output_weight), num_heads=3, **sizes)
    heads.start_from(parts.output_weight)
    return heads.to(target.device, target.dtype).requires_grad_(False)


def eagle_head(target: Target, **sizes: Any) -> EagleHead:
    """Untrained."""
    torch.manual_seed(0)
    parts = ModelParts.of(target)
    head = EagleHead(parts.hidden_size, parts.embedding.shape[1], **{"window": 6, **sizes})
    return head.to(target.device, target.dtype).requires_grad_(False)
