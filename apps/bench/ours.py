"""This project's own entry of `bench gec`: the engine with its drafters and types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from apps.bench.timing import Output
from core import Completion, Engine, Request, SamplingParams
from core.drafters.copy import Copy
from core.drafters.correction_memory import CorrectionMemory


def forget_edits(engine: Engine) -> None:
    """Empty the memory of earlier edits.

    Whoever measures the same texts twice must: the second time every edit would be drafted from memory, and
    the passes would fall below those of any text seen for the first time.
    """
    if isinstance(engine.drafter, Copy):
        engine.drafter.memory = CorrectionMemory()


class EngineRunner:
    """An engine that corrects texts; one call a text, or all texts in one call that batches inside."""

    def __init__(self, model: Path, max_new_tokens: int, max_rows: int, **options: Any) -> None:
        self._engine = Engine.from_pretrained(str(model), device="cpu", max_rows=max_rows, **options)
        self._params = SamplingParams(max_new_tokens=max_new_tokens)
        # Left out, as everyone does, so that the outputs of all compare alike.
        self._special = set(self._engine.tokenizer.all_special_ids)

    def __call__(self, texts: Sequence[str], rows: int) -> list[Output]:
        """Correct the texts, one by one or all at once, without having seen them before."""
        self.forget()
        return self.decode(texts, rows)

    def forget(self) -> None:
        """Empty the memory of edits."""
        forget_edits(self._engine)

    def decode(self, texts: Sequence[str], rows: int) -> list[Output]:
        """Correct the texts, one by one or all at once."""
        requests = [Request(text) for text in texts]
        if rows > 1:
            return [self._output(done) for done in self._engine.generate(requests, self._params)]
        return [self._output(self._engine.generate([request], self._params)[0]) for request in requests]

    def _output(self, done: Completion) -> Output:
        kept = tuple(i for i in done.token_ids if i not in self._special)
        return Output(kept, done.text, done.stats.target_calls)

    def phase_seconds(self) -> dict[str, float]:
        """Seconds of the engine's life so far that each phase of the loop took."""
        return asdict(self._engine.stats.seconds)
