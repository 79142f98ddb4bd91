"""The progress line of a training run on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from .trainer import Trainer


@contextmanager
def ticker(console: Console, enabled: bool) -> Iterator[Callable | None]:
    """A function to call after each step, which moves the bar; None where there is no terminal."""
    if not enabled:
        yield None
        return
    columns = (TextColumn("step {task.fields[step]}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    more = (
        TextColumn("loss {task.fields[loss]:.3f}  {task.fields[speed]:.0f} tokens/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, *more, console=console) as bar:
        task = bar.add_task("", total=1.0, step=0, loss=0.0, speed=0.0)

        def tick(trainer: Trainer, loss: float, speed: float) -> None:
            bar.update(task, completed=trainer.fraction(), step=trainer.progress.step, loss=loss, speed=speed)

        yield tick
