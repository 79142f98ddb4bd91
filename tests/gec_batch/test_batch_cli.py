"""The command line: exit codes, the last line, and that a refused job loads no model."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from batch_stub import StubCorrector, sample_lines
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
        if "--workers" not in words:
            words += ["--workers", "1"]
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


class Raising(StubbedModel):
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


@pytest.mark.parametrize("words", ["0", "-1", "two", "1.5", ""])
def test_workers_are_a_number_or_auto(words: str, run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "in.txt").write_text("teh\n")
    result = run(tmp_path / "in.txt", tmp_path / "out.txt", "--workers", words)
    assert result.exit_code == 2
    assert f"--workers {words} must be a number of processes, at least 1, or auto" in result.stderr


@pytest.fixture
def stub_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools have the stub in their workers, and small units."""
    monkeypatch.setattr("apps.gec.corrector_pool.TASK", "batch_stub:load_task")
    monkeypatch.setattr("apps.gec.corrector_pool._CHARS_PER_ROW", 4)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


@pytest.mark.usefixtures("stub_pool")
@pytest.mark.parametrize("workers", ["2", "auto"])
def test_several_workers_write_what_one_writes(workers: str, run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    source, alone, together = (tmp_path / name for name in ("in.txt", "alone.txt", "together.txt"))
    source.write_text("".join(line + "\n" for line in sample_lines(700)) + "BREAK")
    assert run(source, alone).exit_code == 1
    result = run(source, together, "--workers", workers, "--batch-size", "8", "--stats")
    assert result.exit_code == 1
    assert together.read_bytes() == alone.read_bytes()
    rejects = [path.with_name(path.name + ".rejects.jsonl").read_text() for path in (alone, together)]
    assert rejects[0] == rejects[1]
    assert "refused by the corrector: REFUSE is refused" in rejects[1]
    assert last_line(result).startswith(f"701 rows in {together}: ")


@pytest.mark.usefixtures("stub_pool")
@pytest.mark.parametrize(
    ("word", "says"),
    [("FAIL", r"error: row 401: in a worker: RuntimeError: no room"),
     ("DIE", r"error: worker process \d+ was killed by SIGKILL; .* rows \d+ to \d+ are to be done again")],
)  # fmt: skip
def test_a_worker_that_fails_or_dies_stops_the_job_and_nothing_that_was_written_is_lost(  # type: ignore[no-untyped-def]
    word: str, says: str, run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    lines = [f"teh {number}" for number in range(600)]
    lines[400] = word
    source.write_text("\n".join(lines))
    asked = [source, output, "--workers", "2", "--batch-size", "8"]
    result = run(*asked)
    assert result.exit_code == 3
    assert re.search(says, result.stderr), result.stderr
    safe = re.match(r"stopped: (\d+) rows are safe; mend the cause", last_line(result))
    assert safe
    assert 0 < int(safe[1]) <= 400
    if word == "DIE":
        monkeypatch.setenv("KEPT_ALIVE", "1")
        result = run(*asked)
        assert (result.exit_code, f"continuing after row {safe[1]}" in result.stderr) == (0, True)
        assert output.read_text() == source.read_text().replace("teh", "the")


@pytest.mark.usefixtures("stub_pool")
def test_an_empty_file_stays_empty_with_several_workers(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "in.txt").touch()
    assert run(tmp_path / "in.txt", tmp_path / "out.txt", "--workers", "2").exit_code == 0
    assert (tmp_path / "out.txt").read_bytes() == b""


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
