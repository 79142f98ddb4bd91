"""The options that `chat`, `ask` and `eval` share, with their help. Defaults are `ChatConfig`'s. Knows typer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from apps.drafter_options import DrafterOption

from .config import ChatConfig

DEFAULTS = ChatConfig()

K = Annotated[int, typer.Option("--k", help="Passages to look up.")]
Format = Annotated[Literal["text", "json"], typer.Option("--format", help="text, or one JSON object.")]
Stats = Annotated[bool, typer.Option("--stats", help="Seconds, tokens and tokens per forward, to stderr.")]


@dataclass(frozen=True)
class AnswerOptions:
    """Where passages come from, and what answers."""

    index: Annotated[
        Path | None, typer.Option(help="Folder of the index.", show_default="the handbook's")
    ] = DEFAULTS.index
    model: Annotated[
        str | None,
        typer.Option(help="Folder or hub id of a decoder-only model.", show_default="the shipped one"),
    ] = DEFAULTS.model
    drafter: Annotated[
        str, typer.Option(help="How guesses are made (none: plain decoding); never changes the answer.")
    ] = DEFAULTS.drafter
    drafter_option: DrafterOption = None
    min_score: Annotated[
        float | None,
        typer.Option(help="Passages below are not good enough.", show_default="what suits the search"),
    ] = DEFAULTS.min_score
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = DEFAULTS.temperature
    seed: Annotated[int, typer.Option(help="For temperatures above 0.")] = DEFAULTS.seed
    max_tokens: Annotated[int, typer.Option(help="Tokens of an answer, at most.")] = DEFAULTS.max_tokens
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N.")] = DEFAULTS.device
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, int8.")] = DEFAULTS.dtype
    threads: Annotated[int | None, typer.Option(help="CPU threads.", show_default="as torch chooses")] = (
        DEFAULTS.threads
    )

    def config(self, **more: Any) -> ChatConfig:
        """These, and `more` fields of it. Raises ValueError, naming the value and the remedy."""
        settings = dict(vars(self))
        items = tuple(settings.pop("drafter_option") or ())
        return ChatConfig(**settings, drafter_options=items, **more)
