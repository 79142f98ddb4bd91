"""From a path or hub id to a target and its tokenizer.

Knows transformers' auto classes, devices and dtypes. Does not know drafting.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedModel,
)

from core.targets.base import Target
from core.targets.cuda_graphs import use_cuda_graphs
from core.targets.limits import settings_not_applied
from core.targets.registry import target_for

_LOG = logging.getLogger(__name__)

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
    # What is not a matrix stays float32; see `core.targets.linear.Int8Linear`.
    "int8": torch.float32,
}


def pick_device(name: str) -> torch.device:
    """`auto` is CUDA where there is one, else the CPU. Raises ValueError for what this machine lacks."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"unknown device {name!r}; use auto, cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {name!r} is not supported; use auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={name!r} was asked for, but torch sees no CUDA device; use --device cpu")
    return device


def pick_dtype(name: str, device: torch.device, asked: torch.dtype | None = None) -> torch.dtype:
    """`auto` is float32 on a CPU, where output identical to plain decoding is worth more than bf16's speed, and
    bfloat16 on a GPU, but for a model whose config asks for float32."""
    if name == "auto":
        return torch.float32 if device.type == "cpu" or asked is torch.float32 else torch.bfloat16
    if name not in DTYPES:
        raise ValueError(f"unknown dtype {name!r}; use auto or one of {', '.join(DTYPES)}")
    return DTYPES[name]


def load_model(name: str | Path, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """The transformers model, in evaluation mode, frozen. An existing folder never asks the network."""
    where, options = _resolve(name)
    config = AutoConfig.from_pretrained(where, **options)
    auto: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    # sdpa ignores Gemma 2's soft-capping, so such models run with the eager attention.
    if getattr(config.get_text_config(decoder=True), "attn_logit_softcapping", None):
        options["attn_implementation"] = "eager"
    model: Any = auto.from_pretrained(where, dtype=dtype, **options)
    frozen: PreTrainedModel = model.to(device).eval().requires_grad_(False)
    return frozen


def load(
    name: str | Path, device: str = "auto", dtype: str = "auto", *, cuda_graphs: bool = True
) -> tuple[Target, Any]:
    """Target and tokenizer of a local folder or hub id.

    `cuda_graphs=False` launches every kernel of a pass by itself, on a CUDA device too.
    What the model's generation config asks for beyond plain decoding is not applied, and a warning names it.
    Raises ValueError (unknown device, dtype or path) and UnsupportedModelError (cannot be run exactly).
    """
    where = pick_device(device)
    path, options = _resolve(name)
    asked = AutoConfig.from_pretrained(path, **options).dtype
    model = load_model(name, where, pick_dtype(dtype, where, asked))
    target = target_for(model, is_int8=dtype == "int8")
    if settings := settings_not_applied(model):
        _LOG.warning("%s: its generation config asks for what is not applied: %s", name, ", ".join(settings))
    if where.type == "cuda" and cuda_graphs:
        use_cuda_graphs(target)
    return target, AutoTokenizer.from_pretrained(path, **options)


def _resolve(name: str | Path) -> tuple[str, dict[str, Any]]:
    """The name as transformers wants it. Raises ValueError for what looks like a path and is none."""
    text = os.fspath(name)
    if Path(text).is_dir():
        if not (Path(text) / "config.json").is_file():
            raise ValueError(f"{text!r} holds no config.json; give the folder of a transformers model")
        return text, {"local_files_only": True}
    if Path(text).exists():
        raise ValueError(f"{text!r} is a file; give the folder that holds the model's config.json")
    if text.startswith((".", "/", "~")) or text.count("/") > 1 or (os.sep != "/" and os.sep in text):
        raise ValueError(f"no model folder at {text!r}; give an existing folder or a hub id such as org/name")
    return text, {}
