"""The options that correcting and batch jobs share, with their help. Defaults are `CorrectorConfig`'s. Knows typer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from apps.drafter_options import DrafterOption

from .config import CorrectorConfig

DEFAULTS = CorrectorConfig()


@dataclass(frozen=True)
class CorrectorOptions:
    """Which model corrects, and how."""

    model: Annotated[
        str | None, typer.Option(help="Folder or hub id of a model.", show_default="the shipped one")
    ] = DEFAULTS.model
    prompt: Annotated[
        str | None, typer.Option(help="Template with {text}.", show_default="what the model's family wants")
    ] = DEFAULTS.prompt
    drafter: Annotated[
        str, typer.Option(help="How guesses are made (none: plain decoding); never changes the text.")
    ] = DEFAULTS.drafter
    drafter_option: DrafterOption = None
    caution: Annotated[
        float,
        typer.Option(
            help="Logits added to copying the source: 3 or 4 for fewer, surer edits, 0 or -1 for more."
        ),
    ] = DEFAULTS.caution
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N.")] = DEFAULTS.device
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, float16, int8.")] = DEFAULTS.dtype

    def config(self, **more: Any) -> CorrectorConfig:
        """These, and `more` fields of it. Raises ValueError, naming the value and the remedy."""
        settings = dict(vars(self))
        items = tuple(settings.pop("drafter_option") or ())
        return CorrectorConfig(**settings, drafter_options=items, **more)
