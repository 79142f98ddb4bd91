"""The command: what goes in, what comes out, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from gec_fakes import RuleEngine, plain_errors
from typer.testing import CliRunner, Result

from apps.gec import corrector
from apps.gec.__main__ import app

HERE = Path(__file__).parent
FAKE = ["--model", "org/fake"]


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> RuleEngine:
    fake = RuleEngine(plain_errors)
    monkeypatch.setattr(corrector, "load_engine", lambda config: fake)
    return fake


def run(*args: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(app, [*FAKE, *args], input=stdin)


def test_arguments_are_corrected_one_by_one() -> None:
    result = run("She go to school.", "It is alot.")
    assert result.stdout == "She went to school.\nIt is a lot.\n"


def test_lines_keep_their_ends() -> None:
    result = run(stdin="I go out.\r\n\n  alot of it\n\ufeffYou go out.".encode())
    assert result.stdout_bytes == "I went out.\r\n\n  a lot of it\n\ufeffYou went out.".encode()


def test_a_file_keeps_every_byte_outside_the_edits(tmp_path: Path) -> None:
    text = "\ufeffTitle\r\n\r\n\tShe go to “school”.  He stayed…\r\n\r\n\r\n   - I go out\r\n   - no\u2028end"
    (tmp_path / "essay.txt").write_bytes(text.encode())
    result = run("--file", str(tmp_path / "essay.txt"))
    assert result.stdout_bytes == text.replace(" go ", " went ").encode()


@pytest.mark.parametrize("args", [[], ["--file", "-"], [""]])
def test_empty_input_gives_empty_output_and_loads_nothing(args: list[str], engine: RuleEngine) -> None:
    result = run(*args)
    assert (result.stdout, result.exit_code) == ("", 0)
    assert engine.read == []


def test_json_counts_offsets_over_all_lines() -> None:
    text = "Fine.\nShe go to school. I go home.\n"
    result = run("--format", "json", stdin=text.encode())
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [r["input"] for r in records] == [0, 1, 1]
    assert [text[r["start"] : r["end"]] for r in records] == ["Fine.", "She go to school.", "I go home."]
    assert all(text[e["input_start"] : e["input_end"]] == "go" for r in records for e in r["edits"])


def test_a_byte_that_is_not_utf8_is_named_by_its_offset(tmp_path: Path) -> None:
    result = run(stdin=b"I go out.\nab\xffc\n")
    assert result.exit_code == 2
    assert "0xff at offset 12" in result.stderr
    assert result.stdout == "I went out.\n"
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    result = run("--file", str(tmp_path / "latin.txt"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "0xe9 at offset 3" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--file", "/nowhere/essay.txt"], "there is no file"),
        (["--file", "/"], "is a directory"),
        (["--file", "x", "text"], "give one of them"),
        (["--caution", "nan", "text"], "caution=nan"),
        (["--prompt", "grammar:", "text"], "{text}"),
        (["--model", "/nowhere/model", "text"], "no model at"),
        (["--model", __file__, "text"], "is a file"),
    ],
)
def test_mistakes_are_told_with_a_remedy_and_no_traceback(args: list[str], message: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_stats_go_to_stderr() -> None:
    result = run("--stats", "I go out.")
    assert "tokens per forward" in result.stderr
    assert "sentences/s" in result.stderr
    assert result.stdout == "I went out.\n"


def test_no_colour_in_a_pipe_or_against_the_users_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--format", "diff", "I go out.").stdout == "I [-go-]{+went+} out.\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run("--format", "diff", "I go out.").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run("--format", "diff", "I go out.").stdout


# -- as a process ------------------------------------------------------------------------------------

SCRIPT = """
import signal, sys
# A runner in the background may have set the signal to be ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {here!r})
from gec_fakes import RuleEngine, plain_errors
from apps.gec import __main__, corrector
corrector.load_engine = lambda config: RuleEngine(plain_errors)
sys.argv = ["gec", "--model", "org/fake"]
__main__.main()
"""


def process() -> subprocess.Popen[bytes]:
    root = str(HERE.parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(here=str(HERE))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        cwd=root, env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip


def test_a_line_comes_back_before_the_next_is_given_and_ctrl_c_ends_quietly() -> None:
    with process() as running:
        assert running.stdin
        assert running.stdout
        assert running.stderr
        running.stdin.write(b"I go out.\n")
        running.stdin.flush()
        assert running.stdout.readline() == b"I went out.\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
        assert b"Traceback" not in running.stderr.read()


def test_a_closed_pipe_ends_quietly() -> None:
    with process() as running:
        assert running.stdin
        assert running.stdout
        assert running.stderr
        running.stdin.write(b"I go out.\n")
        running.stdin.flush()
        running.stdout.readline()
        running.stdout.close()
        running.stdin.write(b"I go out.\n")
        running.stdin.close()
        running.stdin = None
        assert running.wait(30) == 141
        assert running.stderr.read() == b""


def test_help_imports_no_model_library() -> None:
    code = "import sys, apps.gec.__main__; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=HERE.parents[1], check=True)
    assert done.stdout.strip() == b"False"
