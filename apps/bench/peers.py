"""The other runtimes of `bench gec`: transformers `generate`, its prompt lookup, and CTranslate2.

Each peer loads the same weights from the same folder and corrects texts, tokenisation and detokenisation
included. Nothing of this project runs inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from apps.bench.timing import Output

MISSING_CTRANSLATE2 = "ctranslate2 is not installed; it comes with the extra: pip install 'echodraft[bench]'"

# Settings that BART's configuration lost in transformers 5 and that CTranslate2's loader still reads.
_BART_SETTINGS = {
    "normalize_before": False,
    "normalize_embedding": True,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
}


def in_chunks(texts: Sequence[str], rows: int, correct: Callable[[list[str]], list[Output]]) -> list[Output]:
    """Correct `rows` texts at a time, batches sorted by length (as a careful user does), order restored."""
    if rows == 1:
        return [output for text in texts for output in correct([text])]
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    outputs: dict[int, Output] = {}
    for start in range(0, len(order), rows):
        chunk = order[start : start + rows]
        outputs.update(zip(chunk, correct([texts[i] for i in chunk]), strict=True))
    return [outputs[i] for i in range(len(texts))]


class TransformersPeer:
    """transformers' own greedy `generate`, plain or with prompt lookup."""

    def __init__(
        self,
        model: Path | str,
        dtype: torch.dtype,
        max_new_tokens: int,
        prompt_lookup_tokens: int | None = None,
    ) -> None:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(model)
        self._model: Any = AutoModelForSeq2SeqLM.from_pretrained(model, dtype=dtype).eval()
        self._special = set(self._tokenizer.all_special_ids)
        self._options: dict[str, Any] = {
            "max_new_tokens": max_new_tokens,
            "do_sample": False,
            "num_beams": 1,
            "prompt_lookup_num_tokens": prompt_lookup_tokens,
        }

    @property
    def special_ids(self) -> set[int]:
        """Ids that frame a text and are no part of it."""
        return self._special

    def __call__(self, texts: Sequence[str], rows: int) -> list[Output]:
        """Correct the texts, `rows` at a time."""
        return in_chunks(texts, rows, self._correct)

    @torch.inference_mode()
    def _correct(self, texts: list[str]) -> list[Output]:
        inputs = self._tokenizer(texts, return_tensors="pt", padding=True)
        inputs.pop("token_type_ids", None)
        written = self._model.generate(**inputs, **self._options)
        decoded = self._tokenizer.batch_decode(written, skip_special_tokens=True)
        outputs = []
        for ids, text in zip(written.tolist(), decoded, strict=True):
            kept = tuple(i for i in ids if i not in self._special)
            # Plain decoding spends one pass per token and one for the end; lookup's passes are not reported.
            passes = None if self._options["prompt_lookup_num_tokens"] else len(kept) + 1
            outputs.append(Output(kept, text, passes))
        return outputs


@contextmanager
def ctranslate2_copy(model: Path) -> Iterator[Path]:
    """The weights converted for CTranslate2, in a temporary folder that goes when the context ends."""
    try:
        import ctranslate2  # noqa: F401  (only to name the extra before any work is done)
    except ImportError as error:
        raise ImportError(MISSING_CTRANSLATE2) from error
    with TemporaryDirectory(prefix="echodraft-ct2-") as folder:
        converted = Path(folder) / "model"
        _convert(model, str(converted))
        yield converted


class CTranslate2Peer:
    """A translator over a converted copy: `workers` batches in parallel, `threads` each, `batch` rows a batch."""

    def __init__(
        self,
        model: Path | str,
        converted: Path | str,
        max_new_tokens: int,
        compute_type: str,
        workers: int = 1,
        threads: int = 1,
        batch: int | None = None,
    ) -> None:
        import ctranslate2
        from transformers import AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(model)
        self._special = set(self._tokenizer.all_special_tokens)
        self._max_new_tokens = max_new_tokens
        self._batch = batch
        self._translator: Any = ctranslate2.Translator(
            str(converted),
            device="cpu",
            compute_type=compute_type,
            inter_threads=workers,
            intra_threads=threads,
        )

    def __call__(self, texts: Sequence[str], rows: int) -> list[Output]:
        """Correct the texts, one by one or all in one call: it sorts by length and keeps every worker busy."""
        if rows == 1:
            return [output for text in texts for output in self._correct([text], 1)]
        return self._correct(texts, min(self._batch or rows, rows))

    def _correct(self, texts: Sequence[str], batch: int) -> list[Output]:
        sources = [
            self._tokenizer.convert_ids_to_tokens(ids) for ids in self._tokenizer(list(texts))["input_ids"]
        ]
        results = self._translator.translate_batch(
            sources,
            beam_size=1,
            max_batch_size=batch,
            max_input_length=0,
            max_decoding_length=self._max_new_tokens,
        )
        written = [
            tuple(
                self._tokenizer.convert_tokens_to_ids([t for t in r.hypotheses[0] if t not in self._special])
            )
            for r in results
        ]
        decoded = self._tokenizer.batch_decode(written)
        return [Output(ids, text, len(ids) + 1) for ids, text in zip(written, decoded, strict=True)]


def _convert(model: Path, folder: str) -> None:
    """Convert from float32 weights, whatever type they are stored in."""
    from ctranslate2.converters import TransformersConverter

    class Converter(TransformersConverter):
        def load_model(self, model_class: Any, name: str, **options: Any) -> Any:
            loaded = super().load_model(model_class, name, **(options | {"dtype": torch.float32}))
            for setting, default in _BART_SETTINGS.items():
                if not hasattr(loaded.config, setting):
                    setattr(loaded.config, setting, default)
            return loaded

        def load_tokenizer(self, tokenizer_class: Any, name: str, **options: Any) -> Any:
            # The converted model names both, and cannot be loaded where a byte-level tokenizer has neither.
            loaded = super().load_tokenizer(tokenizer_class, name, **options)
            loaded.bos_token = loaded.bos_token or loaded.eos_token
            loaded.unk_token = loaded.unk_token or loaded.eos_token
            return loaded

    Converter(str(model)).convert(folder)
