"""`python -m apps.bench`: one sub-command per benchmark. To add one, write a file and a line here."""

from __future__ import annotations

from collections.abc import Callable

import typer

from apps.bench import gec, gec_table

COMMANDS: dict[str, Callable[..., None]] = {
    "gec": gec.main,
    "table": gec_table.main,
}

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Measured comparisons with other runtimes."
)


@app.callback()
def _benchmarks() -> None:
    """Measured comparisons with other runtimes, on the same weights and in the same run."""


for name, command in COMMANDS.items():
    app.command(name)(command)


if __name__ == "__main__":
    app()
