"""What a correction is: the text, its sentences, its edits, and what it cost.

Knows strings, offsets and counters. Does not know the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

from .edits import Edit, extract_edits


@dataclass
class CorrectionStats:
    """Counters that add up.

    `sentences` were read, `changed` came out different, `skipped` had nothing to correct and never met the model.
    `kept` counts the pieces whose output was not trusted, by reason (see `guard`): their source stands unchanged.
    `dropped` counts single changes that were not made (see `projection`). `forwards` are decoder passes, counted
    for each sentence; `emitted` / `forwards` is therefore the tokens that one pass of one sentence yielded.
    """

    sentences: int = 0
    changed: int = 0
    skipped: int = 0
    dropped: int = 0
    forwards: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: int = 0
    seconds: float = 0.0
    kept: Counter[str] = field(default_factory=Counter)

    def add(self, other: CorrectionStats) -> None:
        for f in fields(self):
            if f.name == "kept":
                self.kept.update(other.kept)
            else:
                setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))

    @property
    def tokens_per_forward(self) -> float:
        return self.emitted / self.forwards if self.forwards else 0.0

    @property
    def sentences_per_second(self) -> float:
        return self.sentences / self.seconds if self.seconds else 0.0


def total(parts: Sequence[CorrectionStats]) -> CorrectionStats:
    summed = CorrectionStats()
    for part in parts:
        summed.add(part)
    return summed


@dataclass(frozen=True)
class SentenceCorrection:
    """One sentence: `source` stood at `start` of its text and became `corrected`."""

    source: str
    corrected: str
    start: int = 0
    stats: CorrectionStats = field(default_factory=CorrectionStats, compare=False)

    @property
    def end(self) -> int:
        return self.start + len(self.source)

    @property
    def changed(self) -> bool:
        return self.source != self.corrected

    @property
    def warning(self) -> str | None:
        """Why the source, or a piece of it, was kept as it is; None if nothing was refused."""
        return ", ".join(sorted(self.stats.kept)) or None

    @cached_property
    def edits(self) -> tuple[Edit, ...]:
        """Edits with offsets in `source`."""
        return tuple(extract_edits(self.source, self.corrected))

    def __str__(self) -> str:
        return self.corrected


@dataclass(frozen=True)
class Correction:
    """One text: its sentences, and everything between them as it was."""

    source: str
    sentences: tuple[SentenceCorrection, ...]

    @cached_property
    def text(self) -> str:
        """The corrected text."""
        parts: list[str] = []
        at = 0
        for sentence in self.sentences:
            parts += (self.source[at : sentence.start], sentence.corrected)
            at = sentence.end
        return "".join([*parts, self.source[at:]])

    @property
    def changed(self) -> bool:
        return any(sentence.changed for sentence in self.sentences)

    @cached_property
    def edits(self) -> tuple[Edit, ...]:
        """Edits of all sentences, with offsets in the text."""
        return tuple(edit.shifted(s.start) for s in self.sentences for edit in s.edits)

    @cached_property
    def stats(self) -> CorrectionStats:
        return total([sentence.stats for sentence in self.sentences])

    def __str__(self) -> str:
        return self.text
