"""A batch job from its first row to its last, through any number of kills.

Knows the order of things. A window of rows is corrected, written to `OUT.partial`, and only then noted in
`OUT.journal`; a run that starts cuts everything back to the last note. OUT appears by a rename when all rows
are there. Does not know formats or models.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from .byte_sink import AppendFile
from .claim import check_paths, claim_journal, remove
from .config import JobConfig
from .dealing import BatchCorrector, Deal, in_turn
from .errors import JobStopped
from .formats import open_ends
from .journal import Commit, Journal, sync_folder
from .lock import exclusive
from .progress import Progress, Silence
from .rejects import rejects_lines
from .rows import Row, Sink, Source
from .windows import WindowSize, corrected_window, take_window


@dataclass(frozen=True)
class Report:
    """How a job ended."""

    rows: int
    changed: int
    rejected: int
    rows_this_run: int
    seconds: float  # of this run


def run_job(config: JobConfig, corrector: BatchCorrector, progress: Progress | None = None) -> Report:
    """Correct IN into OUT, from wherever an earlier run of the same job stopped.

    Raises `UsageError` before anything is written, `JobStopped` or `OSError` in the middle; after those the
    same call continues.
    """
    with open_job(config) as job:
        if not job.is_published:
            job.run(in_turn(corrector, config.batch_size), progress or Silence())
        return job.report()


@contextmanager
def open_job(config: JobConfig) -> Iterator["Job"]:
    """Check everything that can be checked before a model is loaded, and hold the lock."""
    check_paths(config)
    with ExitStack() as stack:
        stack.enter_context(exclusive(config.lock))
        input_stat = _stat(config.input)
        source, sink = open_ends(
            config.input, config.partial, config.output, config.columns, config.max_chars
        )
        stack.callback(source.close)
        stack.callback(sink.close)
        job = Job(config, source, sink, claim_journal(config), input_stat)
        if job.is_published:
            job.tidy()  # a kill may have come between the rename and this
        yield job


class Job:
    """A job whose files are checked and locked. Made by `open_job`."""

    def __init__(
        self, config: JobConfig, source: Source, sink: Sink, journal: Journal, input_stat: tuple[int, int]
    ) -> None:
        self._config = config
        self._source = source
        self._sink = sink
        self._journal = journal
        self._input_stat = input_stat
        self._rows_before = journal.last.rows
        self._seconds = 0.0

    @property
    def is_published(self) -> bool:
        """Is OUT there already? Then there is nothing to correct."""
        return self._journal.last.state == "published"

    @property
    def num_committed(self) -> int:
        """Rows that are safe."""
        return self._journal.last.rows

    def run(self, deal: Deal, progress: Progress) -> None:
        """Do what is left to do; `deal` has the texts corrected."""
        start = time.monotonic()
        if self._journal.is_new:
            remove(self._config.partial)
            self._journal.begin()
        if self._journal.last.state == "running":
            self._correct_rows(deal, progress)
        self._publish()
        self._seconds = time.monotonic() - start

    def _correct_rows(self, deal: Deal, progress: Progress) -> None:
        config, last = self._config, self._journal.last
        self._sink.rewind(last.mark)
        rejects = AppendFile(config.rejects)
        try:
            rejects.rewind(last.rejects_bytes)
            smallest = min(config.min_window, config.max_window)
            size = WindowSize(smallest, config.max_window, config.commit_seconds)
            rows = self._source.rows(skip=last.rows)
            while self._correct_window(rows, size, deal, rejects, progress):
                pass
        finally:
            rejects.close()
        if _stat(config.input) != self._input_stat:
            raise JobStopped(f"{config.input} was changed while it was read; start anew with --overwrite")
        self._journal.commit(replace(self._journal.last, state="complete"))

    def _correct_window(
        self,
        rows: Iterator[Row],
        size: WindowSize,
        deal: Deal,
        rejects: AppendFile,
        progress: Progress,
    ) -> bool:
        """Correct, write and commit one window; False at the end of IN."""
        before, last = self._source.fraction(), self._journal.last
        window = take_window(rows, size.num_rows)
        if not window:
            return False
        gained = self._source.fraction() - before

        def on_rows(num_rows: int) -> None:
            progress.update(last.rows + num_rows, last.rejected, before + gained * num_rows / len(window))

        on_rows(0)
        start = time.monotonic()
        done = corrected_window(window, deal, self._source.holds_line_breaks, on_rows)
        size.observe(len(window), time.monotonic() - start)
        mark = self._sink.append(done)
        lines = rejects_lines(done)
        rejects_bytes = rejects.append(b"".join(lines)) if lines else last.rejects_bytes
        changed = sum(item.corrected not in (None, item.row.text) for item in done)
        self._journal.commit(
            Commit(
                last.rows + len(done), last.changed + changed, last.rejected + len(lines), mark, rejects_bytes
            )
        )
        return True

    def _publish(self) -> None:
        """Every step may be the last before a kill, and all may be done again."""
        if not self._journal.last.rejected:
            self._config.rejects.unlink(missing_ok=True)
        self._sink.publish()
        sync_folder(self._config.output.parent)
        self._journal.commit(replace(self._journal.last, state="published"))
        self.tidy()

    def tidy(self) -> None:
        """Leave nothing but OUT, its rejects and a short journal."""
        self._sink.clean()
        self._journal.compact()

    def report(self) -> Report:
        """Totals over all runs, and the time of this one."""
        last = self._journal.last
        return Report(last.rows, last.changed, last.rejected, last.rows - self._rows_before, self._seconds)


def _stat(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns
