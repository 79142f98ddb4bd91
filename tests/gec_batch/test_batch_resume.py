"""A job that is killed and started again writes what an undisturbed one writes."""

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from batch_stub import StubCorrector, content, sample_lines

from apps.gec.batch import JobConfig, UsageError, run_job

KILLER = Path(__file__).with_name("killer.py")
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def write_sample(path: Path, count: int) -> None:
    """The sample lines in the format that the name says."""
    lines = list(sample_lines(count))
    if ".parquet" in path.name:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"id": range(count), "text": lines}), path, row_group_size=37)
        return
    text = "".join(line + "\n" for line in lines)
    if ".jsonl" in path.name:
        text = "".join(json.dumps({"id": i, "text": line}) + "\n" for i, line in enumerate(lines))
    if ".csv" in path.name:
        buffer = io.StringIO()
        csv.writer(buffer).writerows([["id", "text"], *enumerate(lines)])
        text = buffer.getvalue()
    path.write_bytes(gzip.compress(text.encode()) if path.name.endswith(".gz") else text.encode())


def kills(mode: str, tmp_path: Path, names: tuple[str, str], count: int) -> int:
    source, expected, output = tmp_path / names[0], tmp_path / f"undisturbed-{names[1]}", tmp_path / names[1]
    write_sample(source, count)
    run_job(JobConfig(source, expected), StubCorrector())
    command = [sys.executable, KILLER, mode, source, output, expected]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, env=ENVIRONMENT)
    assert finished.returncode == 0, finished.stderr
    return int(finished.stdout)


NAMES = [
    ("in.txt", "out.txt.gz"),
    ("in.jsonl.gz", "out.jsonl"),
    ("in.csv", "out.csv.gz"),
    ("in.parquet", "out.parquet"),
]


@pytest.mark.parametrize("names", NAMES, ids=lambda names: names[1])
@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_kill_at_any_step_on_the_disk_loses_and_doubles_nothing(
    mode: str, names: tuple[str, str], tmp_path: Path
) -> None:
    assert kills(mode, tmp_path, names, count=100) > 20


@pytest.mark.parametrize("names", NAMES[:3], ids=lambda names: names[1])
def test_a_kill_in_the_middle_of_a_write_loses_and_doubles_nothing(
    names: tuple[str, str], tmp_path: Path
) -> None:
    assert kills("torn", tmp_path, names, count=100) >= 8


@pytest.mark.parametrize("names", NAMES, ids=lambda names: names[1])
def test_kills_at_random_instants_lose_and_double_nothing(names: tuple[str, str], tmp_path: Path) -> None:
    assert kills("random", tmp_path, names, count=1500) >= 4


class Interrupting(StubCorrector):
    """Raises Ctrl-C in the n-th batch."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.left = batches

    def correct_batch(self, texts: list[str]) -> list:  # type: ignore[type-arg]
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().correct_batch(texts)


def interrupted(tmp_path: Path, **settings: object) -> JobConfig:
    """A job of 100 lines, interrupted in its third window of 16 rows."""
    source = tmp_path / "in.txt"
    write_sample(source, 100)
    config = JobConfig(source, tmp_path / "out.txt", batch_size=4, max_window=16, **settings)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        run_job(config, Interrupting(batches=9))
    return config


def test_an_interrupted_job_leaves_no_OUT_and_repeats_at_most_one_window(tmp_path: Path) -> None:
    config = interrupted(tmp_path)
    assert not config.output.exists()
    report = run_job(config, StubCorrector())
    assert (report.rows, report.rows_this_run, report.rejected) == (100, 68, 2)
    assert config.output.read_text().count("\n") == 100


def test_a_job_may_go_on_with_another_batch_size(tmp_path: Path) -> None:
    config = interrupted(tmp_path)
    other = JobConfig(config.input, config.output, batch_size=7)
    assert run_job(other, StubCorrector()).rows_this_run == 68


def test_a_job_does_not_go_on_with_another_setting_and_the_message_names_it(tmp_path: Path) -> None:
    config = interrupted(tmp_path, corrector_settings={"model": "a"})
    other = JobConfig(config.input, config.output, corrector_settings={"model": "b"})
    with pytest.raises(UsageError, match=r"model was 'a' and is 'b'.*--overwrite"):
        run_job(other, StubCorrector())


def test_a_job_does_not_go_on_when_IN_has_changed(tmp_path: Path) -> None:
    config = interrupted(tmp_path)
    config.input.write_bytes(config.input.read_bytes().replace(b"99 ", b"98 "))
    with pytest.raises(UsageError, match="IN had another content"):
        run_job(config, StubCorrector())


def test_overwrite_begins_anew_where_the_job_is_another_one(tmp_path: Path) -> None:
    config = interrupted(tmp_path, corrector_settings={"model": "a"})
    other = JobConfig(config.input, config.output, corrector_settings={"model": "b"}, overwrite=True)
    assert run_job(other, StubCorrector()).rows_this_run == 100


def test_overwrite_continues_an_unfinished_run_of_the_same_job(tmp_path: Path) -> None:
    config = interrupted(tmp_path, overwrite=True)
    assert run_job(config, StubCorrector()).rows_this_run == 68


def test_a_finished_job_started_again_does_nothing_and_reports_the_same(tmp_path: Path) -> None:
    config = interrupted(tmp_path)
    first = run_job(config, StubCorrector())
    before = content(config.output)
    again = run_job(config, Interrupting(batches=0))
    assert (again.rows, again.rejected, again.changed) == (first.rows, first.rejected, first.changed)
    assert again.rows_this_run == 0
    assert content(config.output) == before


def test_a_torn_last_line_of_the_journal_is_ignored(tmp_path: Path) -> None:
    config = interrupted(tmp_path)
    with config.journal.open("ab") as file:
        file.write(b'{"rows": 99, "cha')
    assert run_job(config, StubCorrector()).rows_this_run == 68


def test_a_partial_file_that_is_shorter_than_the_journal_says_is_not_continued(tmp_path: Path) -> None:
    config = interrupted(tmp_path)
    config.partial.write_bytes(b"")
    with pytest.raises(RuntimeError, match="something changed it; start anew with --overwrite"):
        run_job(config, StubCorrector())
