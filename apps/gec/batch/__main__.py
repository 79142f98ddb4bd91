"""`python -m apps.gec.batch IN OUT`: the command line of batch correction jobs.

Knows options, exit codes and the last line. Does not know how a job works; a model is loaded only when there
is something left to correct.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.gec.config import CorrectorConfig

from .config import JobConfig
from .errors import JobStopped
from .job import Job, Report, open_job
from .progress import shown_progress

if TYPE_CHECKING:
    from apps.gec import CorrectionStats, Corrector

DONE, SOME_REJECTED, USAGE, STOPPED, INTERRUPTED = 0, 1, 2, 3, 130
DEFAULTS = JobConfig(Path("IN"), Path("OUT"))
MODEL = CorrectorConfig()
BATCHES_PER_CALL = 8  # rows that finish early make room for others of the same call


def main(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help=".txt, .jsonl, .csv (or .gz of these), .parquet.")
    ],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The same format as IN; .gz or not.")],
    column: Annotated[str, typer.Option(help="The column with the text.")] = DEFAULTS.column,
    output_column: Annotated[
        str, typer.Option(help="The column for the correction; may be the same.")
    ] = DEFAULTS.output_column,
    max_chars: Annotated[int, typer.Option(help="Longer texts are rejected.")] = DEFAULTS.max_chars,
    overwrite: Annotated[
        bool, typer.Option(help="Replace what is at OUT; an unfinished run of this job is still continued.")
    ] = DEFAULTS.overwrite,
    batch_size: Annotated[
        int, typer.Option(help="Sentences that the model reads together.")
    ] = MODEL.max_rows,
    model: Annotated[str | None, typer.Option(help="A local path or hub id.")] = MODEL.model,
    drafter: Annotated[
        str, typer.Option(help="How guesses are made; never changes the text.")
    ] = MODEL.drafter,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = MODEL.device,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 ...")] = MODEL.dtype,
    caution: Annotated[float, typer.Option(help="Higher: fewer, surer edits.")] = MODEL.caution,
    prompt: Annotated[str | None, typer.Option(help="A template with {text}.")] = MODEL.prompt,
    stats: Annotated[bool, typer.Option("--stats", help="Print counts and speed at the end.")] = False,
) -> None:
    """Correct every row of a file. Kill it whenever you like: the same command continues it.

    Exit codes: 0 every row is done; 1 done, but some rows were rejected (see OUT.rejects.jsonl) and stand
    uncorrected in OUT; 2 refused, nothing was written; 3 stopped in the middle, for instance by a full disk:
    mend the cause and start it again; 130 interrupted, start it again.
    """
    try:
        asked = CorrectorConfig(model, drafter, device, dtype, caution, prompt, max_rows=batch_size)
        config = JobConfig(
            source,
            output,
            column,
            output_column,
            max_chars,
            batch_size=BATCHES_PER_CALL * batch_size,
            min_window=batch_size,
            overwrite=overwrite,
            corrector_settings=text_settings(asked),
        )
        with open_job(config) as job:
            code = _run(job, config, asked, stats)
    except ValueError as error:  # `UsageError`, or a setting that the corrector refuses
        _say(f"error: {error}")
        code = USAGE
    except OSError as error:
        _say(f"error: {error}")
        code = STOPPED
    except KeyboardInterrupt:
        _say("interrupted; the same command continues")
        code = INTERRUPTED
    except Exception:  # noqa: BLE001 - Python's own exit code 1 for a bug would say "some rejected"
        traceback.print_exc()
        _say("stopped by the error above; what was committed is safe")
        code = STOPPED
    raise typer.Exit(code)


def _run(job: Job, config: JobConfig, asked: CorrectorConfig, stats: bool) -> int:
    """Work through the job; the exit code. Says the last line."""
    counted: CorrectionStats | None = None
    try:
        if not job.is_published:
            if job.num_committed:
                _say(f"continuing after row {job.num_committed:,}")
            corrector = _load_corrector(asked)
            with shown_progress() as progress:
                job.run(corrector, progress)
            counted = corrector.stats
    except KeyboardInterrupt:
        _say(f"interrupted: {job.num_committed:,} rows are safe; the same command continues")
        return INTERRUPTED
    except (JobStopped, OSError) as error:
        _say(f"error: {error}")
        _say(f"stopped: {job.num_committed:,} rows are safe; mend the cause, the same command continues")
        return STOPPED
    report = job.report()
    if stats:
        _say(speed_line(report, counted))
    _say(last_line(report, config))
    return SOME_REJECTED if report.rejected else DONE


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


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    typer.run(main)
