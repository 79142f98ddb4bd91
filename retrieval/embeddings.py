"""LangChain's `Embeddings` over any sentence-transformers style encoder, each text embedded once.

Knows the encoder and the cache. Does not know what the texts belong to.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from langchain_core.embeddings import Embeddings

from .embedding_cache import EmbeddingCache
from .encoder_config import EncoderConfig, fingerprint

if TYPE_CHECKING:
    from .encoder import SentenceEncoder

# Computed, and kept in the cache, in one go: a query waits for no more than this, a kill loses no more.
BLOCK = 64
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+|[\w.-]+")
_HUB_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_HUB_OTHER = ["onnx/*", "openvino/*", "*/onnx/*", "*.bin"]


class TransformerEmbeddings(Embeddings):
    """Vectors from the encoder in a folder, or behind a hub id, as its own files say.

    Pooling, projections, normalisation, the longest input and prompts come from `modules.json` and the files it
    names; `query_prompt` and `document_prompt` replace the prompts (E5 wants "query: " and "passage: "). A folder
    never asks the network. With `cache` (a file, or an `EmbeddingCache`) no text is embedded twice, not even by
    different runs. `name` is what people are told (the folder's if not given); `device` is "auto", "cpu" or
    "cuda"; any number of threads may call.
    Raises ValueError for what is not there or cannot be run.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        name: str | None = None,
        cache: EmbeddingCache | str | Path | None = None,
        device: str = "auto",
        batch_size: int = 32,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size} must be at least 1")
        self.model = str(model)
        self.name = name or Path(model).name
        self.folder = model_folder(model)
        self.config = EncoderConfig.from_folder(self.folder)
        self.query_prompt = self.config.query_prompt if query_prompt is None else query_prompt
        self.document_prompt = self.config.document_prompt if document_prompt is None else document_prompt
        self.batch_size = batch_size
        self.cache = cache if isinstance(cache, EmbeddingCache) else EmbeddingCache(cache)
        self.encoder = self._encoder(device)
        self.identity = fingerprint(self.folder)
        self.dimension = self.encoder.dimension
        self._lock = threading.Lock()

    @property
    def model_name(self) -> str:
        """Which model this is, whatever folder it lies in: its name and the start of its fingerprint."""
        return f"{self.name}@{self.identity[:16]}"

    @property
    def max_tokens(self) -> int:
        """The longest text, in its own tokens, that is read to its end."""
        prompt = self.token_counter()(self.document_prompt)
        return self.encoder.max_length - self.encoder.special_tokens - prompt

    def token_counter(self) -> Callable[[str], int]:
        """A function that counts the tokens of a text, special ones not included."""
        return self.encoder.token_counter()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector of `dimension` floats per text."""
        vectors: list[list[float]] = self.embed_matrix(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question, read behind the model's query prompt where it has one."""
        vector: list[float] = self._embed([text], self.query_prompt)[0].tolist()
        return vector

    def embed_matrix(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Float32 [N, D] of N passages, without the detour over lists. `progress` is told after every block how
        many texts are done."""
        return self._embed(texts, self.document_prompt, progress)

    def _embed(
        self, texts: Sequence[str], prompt: str, progress: Callable[[int], None] | None = None
    ) -> np.ndarray:
        if isinstance(texts, str):
            raise ValueError("texts is one string; give a list of strings")
        clean = [_encodable(text) for text in texts]
        matrix = np.empty((len(clean), self.dimension), dtype=np.float32)
        for start in range(0, len(clean), BLOCK):
            block = clean[start : start + BLOCK]
            matrix[start : start + len(block)] = self._embed_block(block, prompt)
            if progress is not None:
                progress(start + len(block))
        return matrix

    def _embed_block(self, texts: list[str], prompt: str) -> np.ndarray:
        # The prompt is part of what was read, so it is part of the key.
        keys = [prompt + text for text in texts]
        with self._lock:  # two threads with one text: the second finds it in the cache
            known = self.cache.get(self.identity, keys, self.dimension)
            missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
            if missing:
                computed = self.encoder.encode(list(missing.values()), prompt, self.batch_size)
                self.cache.put(self.identity, list(missing), computed)
                known |= dict(zip(missing, computed, strict=True))
        return np.stack([known[key] for key in keys])

    def _encoder(self, device: str) -> SentenceEncoder:
        from .encoder import SentenceEncoder  # torch and transformers take seconds to import

        return SentenceEncoder(self.config, device)


def model_folder(model: str | Path) -> Path:
    """The folder of a path, or of a hub id after fetching it. What looks like a path is never looked up there."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    text = str(model)
    if isinstance(model, Path) or not _HUB_ID.fullmatch(text) or text.startswith("."):
        raise ValueError(f"no model folder at {text!r}; give an existing folder or a hub id such as org/name")
    return _fetched(text)


def _fetched(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, HTTPError

    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES, ignore_patterns=_HUB_OTHER))
    except (OSError, HTTPError, HFValidationError) as error:
        raise ValueError(
            f"the embedding model {name!r} is no folder here and cannot be fetched ({str(error).splitlines()[0]}); "
            "give a folder, or a hub id with a network"
        ) from error


def _encodable(text: str) -> str:
    """Lone surrogates, which broken PDFs contain, have no UTF-8 form, and tokenizers refuse them."""
    if not isinstance(text, str):
        raise ValueError(f"only strings can be embedded, not {type(text).__name__}: {text!r:.60}")
    return text.encode("utf-8", "replace").decode("utf-8")
