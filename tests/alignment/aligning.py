"""What the tests of alignment share: small models that can be trained, and texts for them."""

from __future__ import annotations

from typing import Any

import torch

from core.alignment.examples import Example
from core.alignment.writing import engine_of, write
from tests.core.models import EOS, build, repetitive, word_tokenizer

FAMILIES = {"decoder-only": "llama", "encoder-decoder": "bart"}


def target(family: str) -> Any:
    return build(family, torch.float32)


def student(family: str, seed: int = 1) -> Any:
    """Another random model of the family, half as deep."""
    layers: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1}
    if family == "llama":
        layers = {"num_hidden_layers": 1}
    return build(family, torch.float32, seed, **layers).requires_grad_(True)


def prompts(count: int) -> list[list[int]]:
    return [repetitive(5 + i % 4, seed=i) for i in range(count)]


def written(model: Any, count: int, max_new_tokens: int = 8) -> list[Example]:
    """What the model writes for `count` prompts."""
    return write(engine_of(model, word_tokenizer()), prompts(count), 0.0, max_new_tokens)


def given(count: int) -> list[Example]:
    """Outputs of other lengths, that no model wrote."""
    return [Example(tuple(prompt), (*prompt[: 1 + i % 4], EOS)) for i, prompt in enumerate(prompts(count))]
