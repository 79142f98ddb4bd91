"""`python -m apps.bench`: one sub-command per benchmark. To add one, write a file and a line here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

#: Command -> module whose `main` it is. Imported only when asked for: each may need extras that others do not.
COMMANDS = {
    "drafters": "apps.bench.drafters.command",
    "gec": "apps.bench.gec",
    "gpu": "apps.bench.gpu.command",
    "rag": "apps.bench.rag.command",
    "ralm": "apps.bench.ralm",
    "replay": "apps.bench.replay",
    "table": "apps.bench.gec_table",
}

_STYLE: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}


class _Commands(TyperGroup):
    """The commands of the table."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        single = typer.Typer(**_STYLE)
        single.command(cmd_name)(import_module(COMMANDS[cmd_name]).main)
        return typer.main.get_command(single)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    **_STYLE,
    help="Measured comparisons with other runtimes.",
)


@app.callback()
def _benchmarks() -> None:
    """Measured comparisons with other runtimes, on the same weights and in the same run."""


if __name__ == "__main__":
    app()
