"""`python -m apps.gec.batch IN OUT`: the command line of batch correction jobs.

Knows options, exit codes and the last line. Does not know how a job works; a model is loaded only when there
is something left to correct.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from apps.gec.config import CorrectorConfig
from apps.gec.options import DEFAULTS, CorrectorOptions
from apps.gec.workers.machine import physical_cores
from apps.option_groups import takes_groups
from apps.printing import INTERRUPTED, USAGE, hush_hub, say

from . import options
from .config import JobConfig
from .dealing import Deal, in_turn, side_by_side
from .errors import JobStopped, UsageError
from .job import Job, Report, open_job
from .progress import shown_progress

if TYPE_CHECKING:
    from apps.gec import CorrectionStats, Corrector

DONE, SOME_REJECTED, STOPPED = 0, 1, 3
JOB = JobConfig(Path("IN"), Path("OUT"))
BATCHES_PER_CALL = 8  # rows that finish early make room for others of the same call

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
@takes_groups
def main(
    source: options.Source,
    output: options.Output,
    *,
    column: options.Column = JOB.column,
    output_column: options.OutputColumn = JOB.output_column,
    max_chars: options.MaxChars = JOB.max_chars,
    overwrite: options.Overwrite = JOB.overwrite,
    workers: options.Workers = "auto",
    batch_size: options.BatchSize = DEFAULTS.max_rows,
    corrector: CorrectorOptions,
    stats: options.Stats = False,
) -> None:
    """Correct every row of a file. Kill it whenever you like: the same command continues it.

    Exit codes: 0 every row is done; 1 done, but some rows were rejected (see OUT.rejects.jsonl) and stand
    uncorrected in OUT; 2 refused, nothing was written; 3 stopped in the middle, for instance by a full disk:
    mend the cause and start it again; 130 interrupted, start it again.
    """

    hush_hub()

    def start() -> int:
        asked = corrector.config(max_rows=batch_size)
        config = job_config(
            asked,
            num_workers(workers),
            JobConfig(source, output, column, output_column, max_chars, overwrite=overwrite),
        )
        with open_job(config) as job:
            return _run(job, config, asked, num_workers(workers), stats)

    raise typer.Exit(_exit_code(start))


def num_workers(words: str) -> int | None:
    """The number that `--workers` names; None for auto. Raises UsageError."""
    if words == "auto":
        return None
    if not words.isdecimal() or int(words) < 1:
        raise UsageError(f"--workers {words} must be a number of processes, at least 1, or auto")
    return int(words)


def job_config(asked: CorrectorConfig, workers: int | None, base: JobConfig) -> JobConfig:
    """The job as asked for, with windows that keep so many workers busy."""
    return replace(
        base,
        batch_size=BATCHES_PER_CALL * asked.max_rows,
        min_window=asked.max_rows,
        max_window=base.max_window * (physical_cores() if workers is None else workers),
        corrector_settings=text_settings(asked),
    )


def _exit_code(start: Callable[[], int]) -> int:
    """What `start` returns, or the code of its error, which is told."""
    try:
        return start()
    except ValueError as error:  # `UsageError`, or a setting that the corrector refuses
        say(f"error: {error}")
        return USAGE
    except OSError as error:
        say(f"error: {error}")
        return STOPPED
    except KeyboardInterrupt:
        say("interrupted; the same command continues")
        return INTERRUPTED
    except Exception:  # noqa: BLE001 - Python's own exit code 1 for a bug would say "some rejected"
        traceback.print_exc()
        say("stopped by the error above; what was committed is safe")
        return STOPPED


def _run(job: Job, config: JobConfig, asked: CorrectorConfig, workers: int | None, stats: bool) -> int:
    """Work through the job; the exit code. Says the last line."""
    counted: CorrectionStats | None = None
    try:
        if not job.is_published:
            if job.num_committed:
                say(f"continuing after row {job.num_committed:,}")
            with (
                _correctors(asked, workers, config.batch_size) as (deal, counted),
                shown_progress() as progress,
            ):
                job.run(deal, progress)
    except KeyboardInterrupt:
        say(f"interrupted: {job.num_committed:,} rows are safe; the same command continues")
        return INTERRUPTED
    except (JobStopped, OSError) as error:
        say(f"error: {error}")
        say(f"stopped: {job.num_committed:,} rows are safe; mend the cause, the same command continues")
        return STOPPED
    report = job.report()
    if stats:
        say(speed_line(report, counted))
    say(last_line(report, config))
    return SOME_REJECTED if report.rejected else DONE


@contextmanager
def _correctors(
    asked: CorrectorConfig, workers: int | None, batch_size: int
) -> Iterator[tuple[Deal, CorrectionStats]]:
    """Whoever corrects, and what they count: a corrector in this process for one worker, else a pool."""
    if workers == 1:
        corrector = _load_corrector(asked)
        yield in_turn(corrector, batch_size), corrector.stats
        return
    from apps.gec import CorrectorPool

    with CorrectorPool("auto" if workers is None else workers, **asdict(asked)) as pool:
        yield side_by_side(pool), pool.stats


def _load_corrector(asked: CorrectorConfig) -> Corrector:
    from apps.gec import Corrector  # imports torch: seconds that a refused job should not cost

    return Corrector.from_config(asked)


def text_settings(asked: CorrectorConfig) -> dict[str, Any]:
    """The settings that change the text, and so make another job. A local model counts by its full path."""
    name = asked.model_name
    model = str(Path(name).resolve()) if Path(name).exists() else name
    return {"model": model, "dtype": asked.dtype, "caution": asked.caution, "prompt": asked.prompt}


def speed_line(report: Report, counted: CorrectionStats | None) -> str:
    """What `--stats` says. The speed is that of this run, reading and writing included."""
    per_second = 1 / report.seconds if report.seconds else 0.0
    line = f"rows {report.rows:,}  changed {report.changed:,}  rejected {report.rejected:,}"
    line += f"  this run {report.rows_this_run:,} rows in {report.seconds:.1f} s"
    if counted is None:
        return line
    return (
        f"{line}, {report.rows_this_run * per_second:,.1f} rows/s, "
        f"{counted.sentences * per_second:,.1f} sentences/s, {counted.tokens_per_forward:.1f} tokens per forward"
    )


def last_line(report: Report, config: JobConfig) -> str:
    """How many rows, and how many of them were not corrected."""
    where = f" (see {config.rejects})" if report.rejected else ""
    counts = f"{report.changed:,} changed, {report.rejected:,} rejected{where}"
    return f"{report.rows:,} rows in {config.output}: {counts}"


if __name__ == "__main__":
    app(prog_name="python -m apps.gec.batch")
