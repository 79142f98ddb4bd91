"""The settings of a chat, and the folders that it uses when none is named.

Knows names, numbers and paths. Does not load anything, so that a wrong setting is told at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from apps.drafter_options import read_options
from apps.places import shipped


def handbook() -> Path:
    """The documents that ship with the repository."""
    return shipped("handbook")


@dataclass(frozen=True)
class ChatConfig:
    """Everything that `chat`, `ask` and `eval` can be told.

    `index` None is the handbook's; `model` None the shipped one; `min_score` None what suits the kind of search;
    `history` None is a file beside the index. `k` passages are looked up; the answer has at most `max_tokens`.
    `drafter_options` is what the drafter needs besides, as `NAME=VALUE` texts.
    Raises ValueError, naming the value and the remedy.
    """

    index: Path | None = None
    model: str | None = None
    drafter: str = "copy"
    k: int = 5
    min_score: float | None = None
    follow_ups: str = "auto"
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 160
    device: str = "auto"
    dtype: str = "auto"
    threads: int | None = None
    history: Path | None = None
    drafter_options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        read_options(self.drafter_options)
        if self.k < 1:
            raise ValueError(f"k={self.k} must be at least 1")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens={self.max_tokens} must be at least 1")
        if not self.temperature >= 0:
            raise ValueError(f"temperature={self.temperature} must be 0 (greedy) or greater")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads={self.threads} must be at least 1")
