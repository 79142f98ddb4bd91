"""The settings of a corrector, and where the shipped model lies.

Knows names, numbers and paths. Does not load anything, so that a wrong setting is told at once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from apps.drafter_options import read_options
from apps.places import shipped

from .prompts import check_template


def default_model() -> str:
    """The model that ships with the repository."""
    return str(shipped("models/gec-small"))


@dataclass(frozen=True)
class CorrectorConfig:
    """Everything that a `Corrector` can be told.

    `model` is a folder or hub id (None: the shipped one); `prompt` a template with `{text}` (None: what the model's
    family wants); `caution` the bonus in logits for copying (0: the model as it is, below 0: for more edits), which
    in English is withheld from words that are in no list;
    `threads` torch's CPU threads (None: as they are); `max_source_tokens` the size above which a sentence is corrected
    in pieces; `language` the one whose sentence ends are looked for; `drafter_options` what the drafter needs besides,
    as `NAME=VALUE` texts.
    Raises ValueError, naming the value and the remedy.
    """

    model: str | None = None
    drafter: str = "copy"
    device: str = "auto"
    dtype: str = "auto"
    caution: float = 2.0
    prompt: str | None = None
    temperature: float = 0.0
    seed: int = 0
    threads: int | None = None
    max_rows: int = 32
    max_source_tokens: int = 128
    language: str = "en"
    drafter_options: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isfinite(self.caution):
            raise ValueError(
                f"caution={self.caution} must be a number: 3 or 4 for fewer edits, 0 or -1 for more"
            )
        if not self.temperature >= 0:
            raise ValueError(f"temperature={self.temperature} must be 0 (greedy) or greater")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads={self.threads} must be at least 1")
        if self.max_rows < 1:
            raise ValueError(f"max_rows={self.max_rows} must be at least 1")
        if self.max_source_tokens < 8:
            raise ValueError(f"max_source_tokens={self.max_source_tokens} must be at least 8")
        read_options(self.drafter_options)
        if self.prompt is not None:
            check_template(self.prompt)

    @property
    def model_name(self) -> str:
        """The model to load. Raises ValueError for a path that leads nowhere."""
        name = os.path.expanduser(self.model) if self.model else default_model()
        path = Path(name)
        if path.is_dir() and not (path / "config.json").is_file():
            raise ValueError(
                f"{name!r} is a folder without config.json; give the folder of a transformers model"
            )
        if path.exists() and not path.is_dir():
            raise ValueError(f"{name!r} is a file; give the folder that holds the model's config.json")
        if not path.exists() and _looks_like_path(name):
            remedy = "give --model another folder or a hub id such as grammarly/coedit-large"
            raise ValueError(f"there is no model at {name!r}; {remedy}")
        return name


def _looks_like_path(name: str) -> bool:
    """Anything but a hub id of the form org/name. Names without an organisation are mistyped folders by far
    more often than one of the few ids of that kind."""
    return os.path.isabs(name) or name.startswith(".") or name.count("/") != 1 or "\\" in name
