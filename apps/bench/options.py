"""The options that several benchmarks share, with their help. Knows typer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Rounds = Annotated[int, typer.Option(help="Timed rounds, at most; figures are medians.")]
MaxNewTokens = Annotated[int, typer.Option(help="Longest output, alike for all.")]
Only = Annotated[str, typer.Option(help="Contestants by words of their names, comma between.")]
Minutes = Annotated[float, typer.Option(help="Cut to what fits; 0: no bound.")]
Out = Annotated[Path | None, typer.Option(help="Also write the result to this file.")]


def words(listed: str) -> tuple[str, ...]:
    """What stands between commas."""
    return tuple(word.strip() for word in listed.split(",") if word.strip())
