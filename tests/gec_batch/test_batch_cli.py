"""The command line: exit codes, the last line, and that a refused job loads no model."""

import subprocess
import sys
from pathlib import Path

import pytest
from batch_stub import StubCorrector
from typer.testing import CliRunner, Result

from apps.gec.batch import __main__ as command
from apps.gec.results import CorrectionStats

ROOT = Path(__file__).parents[2]


class StubbedModel(StubCorrector):
    """The stub with the counters of the real corrector."""

    stats = CorrectionStats(sentences=2, forwards=2, emitted=9)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Run the command in process with the stub; the corrector may be replaced."""
    import typer

    app = typer.Typer()
    app.command()(command.main)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")

    def invoke(*arguments: object, corrector: StubCorrector | None = None) -> Result:
        monkeypatch.setattr(command, "_load_corrector", lambda asked: corrector or StubbedModel())
        words = [str(argument) for argument in arguments]
        return CliRunner().invoke(app, [*words, "--model", str(tmp_path / "model")])

    return invoke


def last_line(result: Result) -> str:
    return result.stderr.splitlines()[-1]


def test_a_clean_job_exits_with_0_and_says_how_many_rows(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("teh\nok\n")
    result = run(source, output, "--stats")
    assert (result.exit_code, result.stdout) == (0, "")
    assert last_line(result) == f"2 rows in {output}: 1 changed, 0 rejected"
    assert "sentences/s, 4.5 tokens per forward" in result.stderr


def test_rejected_rows_exit_with_1_also_when_the_job_was_finished_before(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"body": "teh"}\n{}\n')
    for _ in range(2):
        result = run(source, output, "--column", "body", "--output-column", "better")
        assert result.exit_code == 1
        assert last_line(result) == f"2 rows in {output}: 1 changed, 1 rejected (see {output}.rejects.jsonl)"
    assert '"better": "the"' in output.read_text()


def test_a_refused_job_exits_with_2(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "in.txt").touch()
    assert run(tmp_path / "gone.txt", tmp_path / "out.txt").exit_code == 2
    assert run(tmp_path / "in.txt", tmp_path / "out.txt", "--max-chars", "0").exit_code == 2
    assert run(tmp_path / "in.txt", tmp_path / "out.txt", "--prompt", "no place").exit_code == 2
    assert [path.name for path in tmp_path.glob("*.txt*")] == ["in.txt"]


class Raising(StubCorrector):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def correct_batch(self, texts: list[str]) -> list:  # type: ignore[type-arg]
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "interrupted: 0 rows are safe; the same command continues"),
        (OSError(28, "No space left on device"), 3, "stopped: 0 rows are safe"),
        (RuntimeError("out of memory"), 3, "stopped by the error above; what was committed is safe"),
    ],
)
def test_a_job_that_stops_says_that_it_can_be_continued(  # type: ignore[no-untyped-def]
    error: BaseException, code: int, says: str, run, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("teh\n")
    result = run(tmp_path / "in.txt", tmp_path / "out.txt", corrector=Raising(error))
    assert result.exit_code == code
    assert last_line(result).startswith(says)
    assert run(tmp_path / "in.txt", tmp_path / "out.txt").exit_code == 0


def test_the_device_and_the_drafter_are_not_part_of_a_jobs_identity_and_the_caution_is(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.json").write_text("{}")
    asked = command.CorrectorConfig(str(tmp_path), drafter="none", device="cpu", caution=1.5)
    assert command.text_settings(asked) == {
        "model": str(tmp_path.resolve()), "dtype": "auto", "caution": 1.5, "prompt": None
    }  # fmt: skip


def test_the_command_refuses_a_missing_IN_without_importing_torch(tmp_path: Path) -> None:
    script = (
        "import runpy, sys; sys.argv = ['batch', 'gone.txt', 'out.txt', '--model', '.']\n"
        "try: runpy.run_module('apps.gec.batch', run_name='__main__')\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules)"
    )
    (tmp_path / "config.json").write_text("{}")
    finished = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout == "2 False\n"
    assert "gone.txt does not exist" in finished.stderr
