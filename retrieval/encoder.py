"""Runs a sentence encoder: texts to vectors, batched by length.

Knows tokenizers, transformers models and what `EncoderConfig` says of them. Does not know caches or LangChain.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import normalize
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging

from .encoder_config import EncoderConfig
from .pooling import pool

# Positions past this are not used where neither the model nor its tokenizer names a limit (T5 has none).
DEFAULT_MAX_LENGTH = 512
_ACTIVATIONS = {
    "Identity": torch.nn.Identity,
    "Tanh": torch.nn.Tanh,
    "GELU": torch.nn.GELU,
    "ReLU": torch.nn.ReLU,
}


class SentenceEncoder:
    """Float32 vectors of texts. The weights are read at the first text, the tokenizer at once. Thread safe."""

    def __init__(self, config: EncoderConfig, device: str = "auto") -> None:
        self.config = config
        self.device = torch.device(_device_name(device))
        self._architecture = AutoConfig.from_pretrained(config.transformer, local_files_only=True)
        self._tokenizer: Any = AutoTokenizer.from_pretrained(config.transformer, local_files_only=True)
        self._tail = [Projection(part) if isinstance(part, Path) else normalize for part in config.tail]
        self.max_length = config.max_length or self._longest()
        self._lock = threading.Lock()
        self._model: Any = None

    @property
    def dimension(self) -> int:
        """Floats of one vector."""
        size = int(self._architecture.hidden_size) * len(self.config.pooling)
        for layer in self._tail:
            if isinstance(layer, Projection):
                size = layer.linear.out_features
        return size

    @property
    def special_tokens(self) -> int:
        """How many of `max_length` tokens the tokenizer adds by itself."""
        return int(self._tokenizer.num_special_tokens_to_add())

    def token_counter(self) -> Callable[[str], int]:
        """A function from a text to its number of tokens, special ones not counted; any number of threads."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        if backend is None:
            return lambda text: len(self._tokenizer(text, add_special_tokens=False)["input_ids"])
        # A copy: calls with truncation and padding change the shared one.
        own = Tokenizer.from_str(backend.to_str())
        own.no_truncation()
        own.no_padding()
        return lambda text: len(own.encode(text, add_special_tokens=False).ids)

    def encode(self, texts: Sequence[str], prompt: str = "", batch_size: int = 32) -> np.ndarray:
        """Vectors [N, D], in the order of the texts; each text is read behind `prompt`, up to `max_length`."""
        # Texts of one length side by side: padding is computed for nothing.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        blocks = []
        for start in range(0, len(order), batch_size):
            chosen = [prompt + texts[i] for i in order[start : start + batch_size]]
            blocks.append(self._encode_batch(chosen, prompt))
        back = np.empty(len(order), dtype=np.intp)
        back[order] = np.arange(len(order))
        vectors: np.ndarray = np.concatenate(blocks)[back]
        return vectors

    @torch.inference_mode()
    def _encode_batch(self, texts: list[str], prompt: str) -> np.ndarray:
        model = self._loaded()
        with self._lock:
            inputs = self._tokens(texts)
            prompt_tokens = 0 if self.config.pools_prompt or not prompt else self._prompt_tokens(prompt)
        states = model(**{name: tensor.to(self.device) for name, tensor in inputs.items()}).last_hidden_state
        vectors = pool(self.config.pooling, states, inputs["attention_mask"].to(self.device), prompt_tokens)
        for layer in self._tail:
            vectors = layer(vectors)
        array: np.ndarray = vectors.float().cpu().numpy()
        return array

    def _tokens(self, texts: list[str]) -> Any:
        if self.config.lowercase:
            texts = [text.lower() for text in texts]
        return self._tokenizer(
            texts, padding=True, truncation=True, max_length=self.max_length, return_tensors="pt"
        )

    def _prompt_tokens(self, prompt: str) -> int:
        ids = self._tokens([prompt])["input_ids"][0].tolist()
        return len(ids) - (ids[-1] in self._tokenizer.all_special_ids)

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                model = _load(self.config.transformer)
                if self._architecture.is_encoder_decoder:  # T5: its encoder alone makes sentence vectors
                    model = model.get_encoder()
                self._model = model.to(self.device).eval().requires_grad_(False)
                self._tail = [
                    part.to(self.device) if isinstance(part, torch.nn.Module) else part for part in self._tail
                ]
            return self._model

    def _longest(self) -> int:
        named = [
            self._tokenizer.model_max_length,
            getattr(self._architecture, "max_position_embeddings", None),
        ]
        return min([limit for limit in named if limit and limit < 1 << 20], default=DEFAULT_MAX_LENGTH)


def _device_name(device: str) -> str:
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device={device!r} was asked for, but torch sees no CUDA device; use 'cpu'")
    return device


def _load(folder: Path) -> Any:
    shows_progress = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # a second of loading needs no bar
    try:
        # float32 everywhere: the cache must hold the same numbers whatever the device.
        return AutoModel.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
        )
    except OSError as error:
        raise ValueError(f"no model can be loaded from {folder}: {str(error).splitlines()[0]}") from error
    finally:
        if shows_progress:
            logging.enable_progress_bar()


class Projection(torch.nn.Module):
    """A layer behind the pooling (LaBSE, GTR): sentence-transformers' Dense module, [B, H] to [B, D]."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        name = str(settings.get("activation_function", "Tanh")).rsplit(".", 1)[-1]
        weights = folder / "model.safetensors"
        if name not in _ACTIVATIONS or settings.get("use_residual") or not weights.is_file():
            raise ValueError(
                f"the dense layer in {folder} cannot be run (activation {name}); it needs model.safetensors, no "
                f"residual connection and one of {', '.join(_ACTIVATIONS)}"
            )
        bias = bool(settings.get("bias", True))
        self.linear = torch.nn.Linear(settings["in_features"], settings["out_features"], bias=bias)
        self.activation = _ACTIVATIONS[name]()
        self.load_state_dict(load_file(weights))
        self.eval().requires_grad_(False)

    def forward(self, vectors: Tensor) -> Tensor:
        projected: Tensor = self.activation(self.linear(vectors))
        return projected
