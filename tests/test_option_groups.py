"""A dataclass of options stands for an option each, in every command that takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from apps.option_groups import takes_groups
from apps.printing import told

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Size:
    """Two options."""

    width: Annotated[int, typer.Option(help="How wide.")] = 3
    height: Annotated[int, typer.Option("--tall", help="How high.")] = 4


@app.command()
@takes_groups
def draw(name: str, *, size: Size, is_round: Annotated[bool, typer.Option("--round")] = False) -> None:
    """Draw a shape."""
    with told(RuntimeError):
        if is_round:
            raise typer.Exit(7)
        if size.width < 0:
            raise RuntimeError(f"width={size.width}")
        print(name, size)


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout, done.stderr


def test_a_field_is_an_option_with_its_default_and_its_own_name() -> None:
    assert run("box") == (0, "box Size(width=3, height=4)\n", "")
    assert run("box", "--width", "8", "--tall", "9") == (0, "box Size(width=8, height=9)\n", "")


def test_help_shows_every_field_and_the_commands_own_words() -> None:
    shown = run("--help")[1]
    assert all(words in shown for words in ("Draw a shape.", "How wide.", "--tall", "--round"))
    assert "--size" not in shown


def test_a_command_called_from_python_takes_fields_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    draw(name="box", width=8)
    assert capsys.readouterr().out == "box Size(width=8, height=4)\n"


def test_an_exit_is_no_error_and_an_error_is_a_line_and_a_code() -> None:
    assert run("box", "--round") == (7, "", "")
    assert run("box", "--width", "-1") == (2, "", "error: width=-1\n")
