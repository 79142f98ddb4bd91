"""What a worker of a `CorrectorPool` does: corrects texts with a corrector of its own.

Knows how a correction passes through a pipe: for each sentence its span, what it became if that differs, and the
counters that are not zero. A refused text passes as the reason, a string.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from apps.gec.config import CorrectorConfig
from apps.gec.refusals import Refusal, correct_or_refuse
from apps.gec.results import Correction, CorrectionStats, SentenceCorrection

from .machine import resident_memory

if TYPE_CHECKING:
    from apps.gec.corrector import Corrector

TASK = "apps.gec.workers.correcting:load"


class Correcting:
    """The task (see `child.Task`)."""

    def __init__(self, corrector: Corrector) -> None:
        self._corrector = corrector

    def about(self) -> dict[str, Any]:
        """Where the model computes, and the memory of this process."""
        return {"device": self._corrector.engine.target.device.type, "memory": resident_memory()}

    def use_threads(self, count: int) -> None:
        """Let torch compute with so many threads."""
        import torch

        torch.set_num_threads(count)

    def correct(self, texts: list[str]) -> list[Any]:
        """A packed correction, or the reason of a refusal, for each text."""
        found = correct_or_refuse(texts, self._corrector.correct_batch)
        return [one.reason if isinstance(one, Refusal) else packed(one) for one in found]


def load(**settings: Any) -> Correcting:
    """The task with these settings of a `CorrectorConfig`."""
    from apps.gec.corrector import Corrector

    return Correcting(Corrector.from_config(CorrectorConfig(**settings)))


def packed(correction: Correction) -> list[Any]:
    """A correction without its source, as JSON can hold it."""
    return [
        [s.start, s.end, s.corrected if s.changed else None, _counted(s.stats)] for s in correction.sentences
    ]


def unpacked(source: str, value: Any) -> Correction | Refusal:
    """The correction of `source`, or its refusal, from what passed through the pipe."""
    if isinstance(value, str):
        return Refusal(value)
    sentences = []
    for start, end, corrected, counted in value:
        own = source[start:end]
        stats = CorrectionStats(**{**counted, "kept": Counter(counted.get("kept", {}))})
        sentences.append(SentenceCorrection(own, own if corrected is None else corrected, start, stats))
    return Correction(source, tuple(sentences))


def _counted(stats: CorrectionStats) -> dict[str, Any]:
    return {f.name: value for f in fields(stats) if (value := getattr(stats, f.name))}
