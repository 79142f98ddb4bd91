"""Engines that write what a test dictates, and engines that wait or break."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from core import Engine, Request, SamplingParams
from core.budget import FixedBudget
from core.types import Sequence
from tests.core.dictation import Dictation
from tests.core.models import BYTE_VOCAB, byte_tokenizer, target_of


class DictatingEngine(Engine):
    """Writes `text`, whatever it is asked; with `gate`, every step waits for it first."""

    def __init__(self, text: str, *, max_positions: int = 4096, **options: Any) -> None:
        target = target_of("llama", vocab_size=BYTE_VOCAB, max_position_embeddings=max_positions)
        super().__init__(target, byte_tokenizer(), "copy", budget=FixedBudget(4), **options)
        self.script = byte_tokenizer().encode(text, add_special_tokens=False)
        self.asked: list[Request] = []
        self.gate: threading.Event | None = None
        self.breaks = False

    def add(self, request: Request, params: SamplingParams | None = None) -> Sequence:
        self.asked.append(request)
        return super().add(replace(request, transform=Dictation(self.script, len(request.prompt))), params)

    def step(self) -> None:
        if self.breaks:
            raise RuntimeError("the engine broke")
        if self.gate is not None and not self.gate.wait(20):
            raise RuntimeError("nobody opened the gate")
        super().step()
