"""What commands say: errors in words with an exit code, figures as a table or as JSON. Knows streams.

Human words go to stderr; stdout is the result.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import typer

USAGE, INTERRUPTED, BROKEN_PIPE = 2, 130, 141
Item = TypeVar("Item")


@contextmanager
def told(*errors: type[Exception], words: Callable[[Exception], str] = str) -> Iterator[None]:
    """Turn `errors`, an interruption and an output that takes no more into a message and an exit code."""
    if sys.stdout is None:
        say("error: standard output is closed; give it a file, a pipe or a terminal")
        raise typer.Exit(USAGE)
    try:
        yield
        sys.stdout.flush()  # here, where a full disk can still be told
    except typer.Exit:
        raise  # a RuntimeError too, and no error
    except KeyboardInterrupt:
        raise _leave(INTERRUPTED) from None
    except BrokenPipeError:
        raise _leave(BROKEN_PIPE) from None
    except errors as error:
        raise _refused(words(error)) from error
    except OSError as error:  # of a full disk, mostly
        raise _refused(str(error)) from error


def _refused(words: str) -> typer.Exit:
    """How to end with a message, below what was written before."""
    code = typer.Exit(USAGE)
    try:
        sys.stdout.flush()
    except OSError:
        code = _leave(USAGE)
    say(f"error: {words}")
    return code


def _leave(code: int) -> typer.Exit:
    """How to end at once: what is left in the output's buffer goes nowhere, so that Python cannot fail on it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return typer.Exit(code)


def say(line: str) -> None:
    """A line for the person who waits."""
    print(line, file=sys.stderr, flush=True)


def hush_hub() -> None:
    """No lines about each try to reach the model hub: our own message says it once. Before a model library loads."""
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")


def tracked(items: Iterable[Item], words: str, total: int) -> Iterator[Item]:
    """The items, with a bar on stderr."""
    from rich.console import Console
    from rich.progress import track

    yield from track(items, words, total=total, console=Console(stderr=True))


def print_figures(figures: dict[str, Any], output: str) -> None:
    """Figures by name on stdout, as `output` says: text or json."""
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
