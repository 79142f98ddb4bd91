"""The contestants of `bench rag`: each looks a question up, reads the passages and writes a greedy answer.

Search, prompt, weights and the longest answer are alike for all; what differs is the runtime that writes. Nothing of
this project's core runs inside the peers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from apps.bench.timing import Output
from apps.rag.library import open_library
from apps.rag.prompts import ABSTENTION, answer_messages, compact
from apps.rag.sources import Source


class Chatter(ABC):
    """Questions in, answers out, one at a time; the search counts."""

    def __init__(self, model: str, index: str, k: int) -> None:
        from transformers import AutoTokenizer

        self._library = open_library(Path(index))
        self._k = k
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model)
        self._special = set(self.tokenizer.all_special_ids)

    def __call__(self, texts: Sequence[str], rows: int) -> list[Output]:
        """Answer the questions."""
        if rows != 1:
            raise ValueError(f"questions are answered one at a time, not {rows} at once")
        self.forget()
        return [self._answer(text) for text in texts]

    def forget(self) -> None:
        """Drop what is known from questions that were asked before: every round asks the same ones."""
        return

    @abstractmethod
    def write(self, prompt: str, sources: Sequence[Source]) -> tuple[list[int], int | None]:
        """The token ids of the answer to a rendered prompt, and the passes it took where they are told."""

    def _answer(self, question: str) -> Output:
        sources = self._library.find(question, self._k)
        messages = answer_messages(question, [source.passage for source in sources])
        prompt = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids, passes = self.write(prompt, sources)
        kept = tuple(i for i in ids if i not in self._special)
        return Output(kept, self.tokenizer.decode(kept), passes)


class EngineChatter(Chatter):
    """Our engine, drafting from the passages as the chat does."""

    def __init__(self, model: str, index: str, k: int, max_new_tokens: int, drafter: str, dtype: str) -> None:
        super().__init__(model, index, k)
        from core import Engine, SamplingParams

        # A prompt that was read in an earlier round must be read again.
        self._engine = Engine.from_pretrained(
            model, drafter=drafter, dtype=dtype, device="cpu", max_rows=1, prefix_rows=0
        )
        self._params = SamplingParams(max_new_tokens=max_new_tokens)

    def forget(self) -> None:
        """Empty the drafter's memory of earlier texts."""
        from apps.bench.ours import forget_edits

        forget_edits(self._engine)

    def write(self, prompt: str, sources: Sequence[Source]) -> tuple[list[int], int | None]:
        """One request, the passages and the abstention its sources."""
        from core import Request

        texts = [compact(source.text) for source in sources]
        weights = [1 / rank for rank in range(1, len(texts) + 1)]
        request = Request(prompt, sources=(*texts, ABSTENTION), source_weights=(*weights, 0.3))
        (done,) = self._engine.generate([request], self._params)
        return done.token_ids, done.stats.target_calls

    def phase_seconds(self) -> dict[str, float]:
        """Seconds of the engine's life so far that each phase of the loop took."""
        return asdict(self._engine.stats.seconds)


class TransformersChatter(Chatter):
    """transformers' own greedy `generate`, plain or with prompt lookup."""

    def __init__(
        self, model: str, index: str, k: int, max_new_tokens: int, dtype: str, prompt_lookup_tokens: int = 0
    ) -> None:
        super().__init__(model, index, k)
        import torch
        from transformers import AutoModelForCausalLM

        self._model: Any = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype)).eval()
        self._options: dict[str, Any] = {"max_new_tokens": max_new_tokens, "do_sample": False}
        if prompt_lookup_tokens:
            self._options["prompt_lookup_num_tokens"] = prompt_lookup_tokens

    def write(self, prompt: str, sources: Sequence[Source]) -> tuple[list[int], int | None]:
        """One call of `generate`."""
        import torch

        inputs = self.tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
        with torch.inference_mode():
            written = self._model.generate(**inputs, **self._options)[0]
        ids: list[int] = written[inputs["input_ids"].shape[1] :].tolist()
        return ids, None if "prompt_lookup_num_tokens" in self._options else len(ids)


class CTranslate2Chatter(Chatter):
    """A CTranslate2 generator over a converted copy of the weights."""

    def __init__(
        self,
        model: str,
        index: str,
        k: int,
        max_new_tokens: int,
        converted: str,
        compute_type: str,
        threads: int,
    ) -> None:
        super().__init__(model, index, k)
        import ctranslate2

        self._generator: Any = ctranslate2.Generator(
            converted, device="cpu", compute_type=compute_type, intra_threads=threads
        )
        self._max_new_tokens = max_new_tokens

    def write(self, prompt: str, sources: Sequence[Source]) -> tuple[list[int], int | None]:
        """One call of `generate_batch` with a single prompt."""
        ids = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        (result,) = self._generator.generate_batch(
            [self.tokenizer.convert_ids_to_tokens(ids)],
            beam_size=1,
            max_length=self._max_new_tokens,
            include_prompt_in_result=False,
            end_token=self.tokenizer.eos_token,
        )
        written: list[int] = list(result.sequences_ids[0])
        return written, len(written) + 1
