"""Random chat models as folders, and engines that write what a test dictates."""

from __future__ import annotations

import copy
from pathlib import Path

import torch

from apps.rag.prompts import CHAT_MARKERS, CHAT_TEMPLATE
from tests.core.models import BYTE_VOCAB, build, byte_tokenizer


def save_chat_model(folder: Path, template: str | None = CHAT_TEMPLATE, context: int = 2048) -> Path:
    """Write a random Llama with byte tokens and the markers of `template`."""
    tokenizer = copy.deepcopy(byte_tokenizer())
    tokenizer.add_special_tokens({"additional_special_tokens": list(CHAT_MARKERS)})
    tokenizer.chat_template = template
    end = tokenizer.convert_tokens_to_ids(CHAT_MARKERS[-1])
    model = build(
        "llama",
        torch.float32,
        vocab_size=BYTE_VOCAB + len(CHAT_MARKERS),
        max_position_embeddings=context,
        eos_token_id=end,
    )
    model.generation_config.eos_token_id = end
    model.save_pretrained(folder)
    tokenizer.eos_token = CHAT_MARKERS[-1]
    tokenizer.save_pretrained(folder)
    return folder
