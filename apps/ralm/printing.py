"""What the commands say: errors in words with an exit code, figures as a table or as JSON. Knows streams."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import typer

if TYPE_CHECKING:
    from .stats import RetrievalStats

USAGE, INTERRUPTED, BROKEN_PIPE = 2, 130, 141
Item = TypeVar("Item")


@contextmanager
def told() -> Iterator[None]:
    """Turn what can go wrong into a message and an exit code."""
    try:
        yield
    except BrokenPipeError:
        # What is left in the output's buffer goes nowhere, so that Python cannot fail on it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None
    except (ValueError, ImportError, TimeoutError, OSError) as error:
        sys.stdout.flush()
        say(f"error: {error}")
        raise typer.Exit(USAGE) from error
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def say(line: str) -> None:
    """A line for the person who waits."""
    print(line, file=sys.stderr, flush=True)


def tracked(items: Iterable[Item], words: str, total: int) -> Iterator[Item]:
    """The items, with a bar on stderr."""
    from rich.console import Console
    from rich.progress import track

    yield from track(items, words, total=total, console=Console(stderr=True))


def print_figures(figures: dict[str, Any], output: str) -> None:
    """Figures by name on stdout, as `output` says."""
    if output == "json":
        print(json.dumps(figures))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "value")
    for name, value in figures.items():
        shown = "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
        table.add_row(name, shown)
    Console().print(table)


def say_stats(stats: RetrievalStats) -> None:
    """What speculation did and cost."""
    seconds = stats.seconds
    say(
        f"retrievals {stats.retrievals}, calls of the retriever {stats.calls} (saved {stats.saved}), "
        f"queries {stats.queries}, asynchronous {stats.asynchronous_calls}"
    )
    say(
        f"guesses right {stats.hits} of {stats.guesses}, roll-backs {stats.roll_backs} "
        f"({stats.lost_tokens} tokens), strides {' '.join(map(str, stats.strides)) or '-'}"
    )
    say(
        f"a {stats.step * 1e3:.2f} ms, b {stats.base * 1e3:.2f} + {stats.per_query * 1e3:.2f} n ms, "
        f"gamma {stats.hit_rate:.2f}"
    )
    say(
        f"seconds: encode {seconds.encode:.3f}, lookup {seconds.lookup:.3f}, search {seconds.search:.3f}, "
        f"wait {seconds.wait:.3f}, write {seconds.write:.3f}"
    )
