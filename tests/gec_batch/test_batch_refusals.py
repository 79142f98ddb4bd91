"""What a job refuses or stops at, and what it says then."""

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from batch_stub import StubCorrector

from apps.gec.batch import JobConfig, JobStopped, UsageError, run_job
from apps.gec.batch.lock import exclusive

Correct = Callable[..., Any]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "content", "output", "message"),
    [
        ("in.docx", b"", "out.txt", "does not end in a supported format: .txt, .jsonl, .csv"),
        ("in.parquet.gz", b"", "out.parquet", "does not end in a supported format"),
        ("in.txt", b"", "out.csv", "IN is .txt and OUT .csv: a job keeps the format; name OUT something.txt"),
        ("in.txt", b"", "in.txt", "IN and OUT are the same file"),
        ("a.jsonl.rejects.jsonl", b"{}", "a.jsonl", "is a file that a job to"),
        ("in.txt", b"", "gone/out.txt", "does not exist; make it first: mkdir -p"),
        ("in.txt", "teh".encode("utf-16"), "out.txt", "is UTF-16; convert it first: iconv"),
        (
            "in.csv",
            b"a,b\n1,2\n",
            "out.csv",
            r"has no column 'text' but \['a', 'b'\]; name one with --column",
        ),
        ("in.csv", b"\ntext\n", "out.csv", r"has no column 'text' but \[\]"),
        ("in.parquet", b"no", "out.parquet", "cannot be read as Parquet"),
    ],
)
def test_a_job_that_cannot_work_is_refused_with_a_remedy_and_writes_nothing(
    name: str, content: bytes, output: str, message: str, correct: Correct, tmp_path: Path
) -> None:
    if "parquet" in name:
        pytest.importorskip("pyarrow")
    with pytest.raises(UsageError, match=message):
        correct(name, content, output)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_missing_IN_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        run_job(JobConfig(tmp_path / "in.txt", tmp_path / "out.txt"), StubCorrector())
    with pytest.raises(UsageError, match="is not a regular file"):
        run_job(JobConfig(tmp_path, tmp_path / "out.txt"), StubCorrector())


def test_a_parquet_column_of_numbers_is_refused(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"text": [1]}), tmp_path / "in.parquet")
    with pytest.raises(UsageError, match="column 'text' is int64, not text"):
        run_job(JobConfig(tmp_path / "in.parquet", tmp_path / "out.parquet"), StubCorrector())


def test_a_missing_pyarrow_names_the_extra(correct: Correct, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'echodraft\[parquet\]'"):
        correct("in.parquet", b"", "out.parquet")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(correct: Correct, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(UsageError, match="is not writable"):
        correct("in.txt", b"teh", "locked/out.txt")


def test_somebody_elses_OUT_is_replaced_only_with_overwrite(correct: Correct, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("precious")
    with pytest.raises(UsageError, match="pass --overwrite to replace it"):
        correct("in.txt", b"teh", "out.txt")
    assert (tmp_path / "out.txt").read_text() == "precious"
    correct("in.txt", b"teh", "out.txt", overwrite=True)
    assert (tmp_path / "out.txt").read_text() == "the"


def test_an_OUT_of_another_IN_is_refused(correct: Correct) -> None:
    correct("in.txt", b"teh", "out.txt")
    with pytest.raises(UsageError, match=r"belongs to another job: IN had another content.*--overwrite"):
        correct("in.txt", b"teh cat", "out.txt")


def test_two_runs_at_once_are_refused_and_a_stale_lock_file_is_not(correct: Correct, tmp_path: Path) -> None:
    with (
        exclusive(tmp_path / "out.txt.lock"),
        pytest.raises(UsageError, match=r"another run is writing .*out\.txt"),
    ):
        correct("in.txt", b"teh", "out.txt")
    (tmp_path / "out.txt.lock").touch()  # as a killed run leaves it
    correct("in.txt", b"teh", "out.txt")
    assert not (tmp_path / "out.txt.lock").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda packed: packed[:-20], "the gzip data end in the middle"),
        (lambda packed: packed + b"junk", "damaged gzip data after line 200"),
        (lambda packed: b"teh\n", "damaged gzip data after line 0"),
    ],
)
def test_damaged_gzip_input_stops_the_job(
    damage: Any, message: str, correct: Correct, tmp_path: Path
) -> None:
    packed = gzip.compress(b"".join(b"teh %d\n" % number for number in range(200)))
    with pytest.raises(JobStopped, match=message):
        correct("in.txt.gz", damage(packed), "out.txt")
    assert not (tmp_path / "out.txt").exists()


def test_a_quote_that_is_never_closed_stops_the_job(
    correct: Correct, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.gec.batch.csv_rows.MAX_CELL_CHARS", 1000)
    with pytest.raises(JobStopped, match="is a quote never closed"):
        correct("in.csv", b'text\nteh\n"teh' + b"\nteh" * 1000, "out.csv")


def test_an_IN_that_changes_while_it_is_read_stops_the_job(tmp_path: Path) -> None:
    config = JobConfig(tmp_path / "in.txt", tmp_path / "out.txt")
    config.input.write_text("teh\n")

    class Meddling(StubCorrector):
        def correct_batch(self, texts: list[str]) -> list[Any]:
            config.input.write_text("other\n")
            return super().correct_batch(texts)

    with pytest.raises(JobStopped, match=r"was changed while it was read; start anew with --overwrite"):
        run_job(config, Meddling())
    assert not config.output.exists()


def test_a_corrector_that_loses_texts_is_not_believed(tmp_path: Path) -> None:
    class Losing(StubCorrector):
        def correct_batch(self, texts: list[str]) -> list[Any]:
            return super().correct_batch(texts)[1:]

    (tmp_path / "in.txt").write_text("teh\nteh\n")
    with pytest.raises(RuntimeError, match="returned 1 results for 2 texts"):
        run_job(JobConfig(tmp_path / "in.txt", tmp_path / "out.txt"), Losing())


FULL_DISK = """
import resource, sys
from pathlib import Path
from batch_stub import StubCorrector
from apps.gec.batch import JobConfig, run_job
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    run_job(JobConfig(Path(sys.argv[1]), Path(sys.argv[2]), max_window=50), StubCorrector())
except OSError as error:
    sys.exit(f"{error}")
"""


def test_a_job_on_a_full_disk_stops_with_an_error_and_continues_when_there_is_room(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"teh {number}\n" for number in range(1000)))

    def run(room: int) -> "subprocess.CompletedProcess[str]":
        path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
        command = [sys.executable, "-c", FULL_DISK, source, output, str(room)]
        return subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )

    assert "File too large" in run(4000).stderr  # what a limit says; a full disk takes the same way
    assert not output.exists()
    assert run(1_000_000).returncode == 0
    assert output.read_text() == source.read_text().replace("teh", "the")
