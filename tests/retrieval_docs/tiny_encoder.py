"""Encoders of a few thousand random weights, in the folder layout of sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

LETTERS = [chr(code) for code in range(33, 127)]


def write_encoder(
    folder: Path, *, seed: int = 0, pooling: dict[str, Any] | None = None, **files: Any
) -> Path:
    """A BERT of two layers with a tokenizer of single letters. `files` are further JSON files, by stem."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=5 + 2 * len(LETTERS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    if pooling is not None:
        modules = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling"), ("2", "2_Normalize", "Normalize")]
        rows = [
            {"idx": int(name), "name": name, "path": path, "type": f"sentence_transformers.models.{kind}"}
            for name, path, kind in modules
        ]
        write_json(folder / "modules.json", rows)
        write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 16, **pooling})
        write_json(folder / "sentence_bert_config.json", {"max_seq_length": 48, "do_lower_case": False})
    for stem, content in files.items():
        write_json(folder / f"{stem}.json", content)
    return folder


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def tokenizer() -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = special + LETTERS + [f"##{letter}" for letter in LETTERS]
    ids = {token: index for index, token in enumerate(vocabulary)}
    backend = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=64, **names)
