"""However a command's output ends, the user reads a line about it and never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = """
import sys, typer
from apps.printing import told
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
@app.command()
def main(is_wrong: bool = False) -> None:
    with told(ValueError):
        print("result")
        if is_wrong:
            raise ValueError("a wrong value")
app()
"""


def ended(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", SCRIPT, *arguments]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=buffered, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a device that is always full")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [([], "No space left on device"), (["--is-wrong"], "a wrong value")],
)
def test_a_full_disk_under_the_output_is_a_line_and_a_code(arguments: list[str], words: str) -> None:
    done = ended(">/dev/full", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("error: ")
    assert words in done.stderr


def test_a_closed_output_is_a_line_and_a_code() -> None:
    done = ended(">&-")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "standard output is closed" in done.stderr


def test_an_error_stands_below_what_was_written_before() -> None:
    done = ended("", "--is-wrong")
    assert (done.returncode, done.stdout, done.stderr) == (2, "result\n", "error: a wrong value\n")


def test_the_hubs_own_warnings_stay_away_however_late_it_is_imported() -> None:
    code = """
from apps.printing import hush_hub
hush_hub()
import logging
import huggingface_hub.utils.logging as theirs
print(theirs.get_logger("huggingface_hub.utils._http").isEnabledFor(logging.WARNING))
"""
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_VERBOSITY"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment, check=True
    )
    assert done.stdout == "False\n"
