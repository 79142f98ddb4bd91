"""The options that several benchmarks share, with their help. Knows typer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

Rounds = Annotated[int, typer.Option(help="Timed rounds, at most; figures are medians.")]
MaxNewTokens = Annotated[int, typer.Option(help="Longest output, alike for all.")]
Only = Annotated[str, typer.Option(help="Contestants by words of their names, comma between.")]
Minutes = Annotated[float, typer.Option(help="Cut to what fits; 0: no bound.")]
Out = Annotated[Path | None, typer.Option(help="Also write the result to this file.")]


def words(listed: str) -> tuple[str, ...]:
    """What stands between commas."""
    return tuple(word.strip() for word in listed.split(",") if word.strip())


def numbers(option: str, listed: str, kind: type[int] | type[float] = int) -> tuple[Any, ...]:
    """The numbers between commas. Raises ValueError, naming the option and what is no number."""
    found = []
    for word in words(listed):
        try:
            found.append(kind(word))
        except ValueError:
            raise ValueError(
                f"--{option} {listed}: {word!r} is no number; write them with commas between"
            ) from None
    return tuple(found)


def need_contestants(only: Sequence[str], names: Sequence[str]) -> None:
    """Raise ValueError for a word of --only that is in no name: nobody would run for it."""
    for word in only:
        if not any(word in name for name in names):
            raise ValueError(f"--only {word!r} names no contestant; there are {', '.join(names)}")
