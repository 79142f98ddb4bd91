"""What `--help` says is for people: one style, defaults in words, no names or paths of the inside."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
COMMANDS = [
    ("apps.gec.__main__", ""),
    ("apps.gec.batch.__main__", ""),
    ("apps.gec.eval", ""),
    ("apps.gec.train", ""),
    ("apps.rag.train", ""),
    ("apps.rag.training.evaluate", ""),
    *(("apps.rag.__main__", name) for name in ("", "index", "chat", "ask", "eval")),
    *(("apps.ralm.__main__", name) for name in ("", "generate", "eval", "datastore")),
    *(("apps.bench.__main__", name) for name in ("", "gec", "replay", "rag", "ralm", "gpu", "table")),
]


def help_of(module: str, name: str) -> str:
    done = CliRunner().invoke(import_module(module).app, [*name.split(), "--help"])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(("module", "name"), COMMANDS)
def test_help_has_one_style_and_nothing_of_this_machine(module: str, name: str) -> None:
    shown = help_of(module, name)
    assert "─" not in shown  # frames of the other style of help
    assert str(ROOT.parent) not in shown
    assert "default: -1" not in shown
    # No summary in a list of commands is cut.
    lines = shown.partition("Commands:")[2].splitlines()
    assert not [line for line in lines if "..." in line and "drafters" not in line]
    # Arguments are named as the text around them writes: TEXT, not text.
    arguments = shown.partition("Arguments:")[2].partition("Options:")[0]
    assert all(line[2:].split()[0].isupper() for line in arguments.splitlines() if line[2:3].isalpha())


@pytest.mark.parametrize(
    ("module", "name", "flag"),
    [
        ("apps.gec.batch.__main__", "", "overwrite"),
        ("apps.gec.train", "", "quiet"),
        ("apps.bench.__main__", "replay", "count-only"),
        ("apps.bench.__main__", "gpu", "quick"),
    ],
)
def test_a_flag_that_is_off_has_no_second_name(module: str, name: str, flag: str) -> None:
    assert f"--{flag}" in help_of(module, name)
    assert f"--no-{flag}" not in help_of(module, name)
