"""The settings of a job and the names of the files it keeps beside OUT.

Knows which settings make a job what it is. Checks values, not files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import UsageError
from .formats import Columns


@dataclass(frozen=True)
class JobConfig:
    """What to correct, where to, and what counts as a bad row."""

    input: Path
    output: Path
    column: str = "text"
    output_column: str = "corrected"
    max_chars: int = 20_000
    batch_size: int = 32  # texts per call of the corrector
    min_window: int = 32  # rows between two commits, at least
    max_window: int = 2048  # and at most; never more than this in memory
    commit_seconds: float = 10.0  # what a kill may cost, about
    overwrite: bool = False
    corrector_settings: Mapping[str, Any] = field(default_factory=dict)  # whatever changes the text

    def __post_init__(self) -> None:
        for name in ("max_chars", "batch_size", "min_window", "max_window"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least 1")

    def beside(self, ending: str) -> Path:
        """OUT's name with something after it."""
        return self.output.with_name(self.output.name + ending)

    @property
    def partial(self) -> Path:
        return self.beside(".partial")

    @property
    def rejects(self) -> Path:
        return self.beside(".rejects.jsonl")

    @property
    def journal(self) -> Path:
        return self.beside(".journal")

    @property
    def lock(self) -> Path:
        return self.beside(".lock")

    @property
    def columns(self) -> Columns:
        return Columns(self.column, self.output_column)
