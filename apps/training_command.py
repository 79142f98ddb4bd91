"""What the commands that train a model share: options, a log, and a run that saves before it stops.

Knows typer and the loop of `core.training`. Does not know models or data.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console

from apps.printing import INTERRUPTED

if TYPE_CHECKING:
    from core.training import LoopConfig, Trainer

_ERR = Console(stderr=True)
Config = TypeVar("Config", bound="LoopConfig")

Out = Annotated[Path, typer.Option(help="Folder for checkpoints, log and exports (outside the repository).")]


@dataclass(frozen=True)
class TrainingOptions:
    """How long, how fast and where; what is not said is the configuration's, or suits fine-tuning."""

    minutes: Annotated[
        float, typer.Option(help="Budget in minutes, summed over resumes; drives the schedule.")
    ] = 60.0
    until: Annotated[str, typer.Option(help="End at this time of day at the latest (HH:MM, UTC).")] = ""
    optimizer: Annotated[
        str, typer.Option(help="muon or adamw.", show_default="the recipe's; adamw when fine-tuning")
    ] = ""
    lr: Annotated[
        float, typer.Option(help="Peak rate.", show_default="the recipe's; 5e-5 when fine-tuning")
    ] = 0.0
    patience: Annotated[
        int,
        typer.Option(
            help="Stop after this many checkpoints without a better held-out loss.",
            show_default="never; 3 when fine-tuning",
        ),
    ] = -1
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto"
    threads: Annotated[int, typer.Option(help="CPU threads (0: as torch chooses).")] = 0
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other field; repeatable.")
    ] = None
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Nothing on standard error; the log file has it all.")
    ] = False

    def config(self, base: Config, *, is_tuning: bool) -> Config:
        """`base` with what was asked for. Raises ValueError for a setting that is not there or does not fit."""
        from core.training import override

        lr = self.lr or (5e-5 if is_tuning else base.lr)
        config = replace(
            base,
            minutes=self.minutes,
            until=self.until,
            threads=self.threads,
            optimizer=self.optimizer or ("adamw" if is_tuning else base.optimizer),
            lr=lr,
            # The recipe's own ratio of the two.
            embed_lr=lr if is_tuning else lr * base.embed_lr / base.lr,
            patience=self.patience if self.patience >= 0 else (3 if is_tuning else 0),
        )
        return override(config, self.set_ or [])


@contextmanager
def journal(out: Path, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A log in the run's folder, line by line; on standard error too unless `quiet`."""
    with (out / "train.log").open("a", encoding="utf-8", buffering=1) as file:

        def log(line: str) -> None:
            file.write(line + "\n")
            if not quiet:
                _ERR.print(line, highlight=False, soft_wrap=True)

        yield log


def run(trainer: Trainer, quiet: bool) -> None:
    """Train to the end, or save first where it is asked to stop."""
    from core.training import ticker

    for number in (signal.SIGINT, signal.SIGTERM):
        # Also where a shell has set the signal to be ignored: being asked to stop means to save first.
        signal.signal(number, signal.default_int_handler)
    try:
        with ticker(_ERR, enabled=not quiet and _ERR.is_terminal) as tick:
            trainer.run(tick)
    except KeyboardInterrupt:
        trainer.save()
        trainer.log("stopped; the same command goes on from here")
        raise typer.Exit(INTERRUPTED) from None
