"""What a run finds at OUT when it starts, and whether that is its own.

Knows when a job is continued, begun or refused. Does not know how rows are corrected.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from .config import JobConfig
from .errors import UsageError
from .formats import FileType
from .identity import check_same, fingerprint
from .journal import Journal


def check_paths(config: JobConfig) -> None:
    """Refuse what cannot work, before anything is written or a model is loaded."""
    if not config.input.is_file():
        what = "is not a regular file" if config.input.exists() else "does not exist"
        raise UsageError(f"IN {config.input} {what}; a job reads a file that it can read again after a kill")
    if config.output.is_dir():
        raise UsageError(f"OUT {config.output} is a folder; name a file in it")
    if config.output.exists() and config.output.samefile(config.input):
        raise UsageError(f"IN and OUT are the same file, {config.input}; name another OUT")
    for own in (config.partial, config.rejects, config.journal, config.lock):
        if own.exists() and own.samefile(config.input):
            raise UsageError(
                f"IN {config.input} is a file that a job to {config.output} writes; name another OUT"
            )
    folder = config.output.parent
    if not folder.is_dir():
        raise UsageError(f"the folder {folder} of OUT does not exist; make it first: mkdir -p {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"the folder {folder} of OUT is not writable; name an OUT elsewhere or change its mode"
        )
    if not os.access(config.input, os.R_OK):
        raise UsageError(f"IN {config.input} is not readable; change its mode")


def claim_journal(config: JobConfig) -> Journal:
    """The journal of this very job, continued or new; another job's files are refused or replaced."""
    identity = _identity(config)
    try:
        journal = Journal.load(config.journal)
        if journal is not None:
            check_same(journal.identity, identity, config.output)
    except UsageError:
        if not config.overwrite:
            raise
        journal = None
    if journal is not None and _continues(journal, config):
        return journal
    existing = [path for path in (config.output, config.partial, config.rejects) if path.exists()]
    if journal is None and existing and not config.overwrite:
        raise UsageError(
            f"{existing[0]} exists and no journal says that it is this job's; pass --overwrite to replace it"
        )
    return Journal(config.journal, identity, replaces=config.overwrite, is_new=True)


def _identity(config: JobConfig) -> dict[str, Any]:
    """What another run must agree with to continue this job."""
    has_columns = FileType.of(config.input).kind != "txt"
    columns = {"column": config.column, "output_column": config.output_column} if has_columns else {}
    return {
        **fingerprint(config.input),
        **columns,
        "max_chars": config.max_chars,
        **config.corrector_settings,
    }


def _continues(journal: Journal, config: JobConfig) -> bool:
    """Whether the journal's job goes on; False if it has to begin anew."""
    output_is_there, partial_is_there = config.output.exists(), config.partial.exists()
    state = journal.last.state
    if state == "published":
        return output_is_there and not config.overwrite
    if state == "complete" and (partial_is_there or output_is_there):
        return True
    if config.overwrite:
        return partial_is_there
    if journal.last.rows and not partial_is_there:
        raise UsageError(f"{config.partial} is gone but its journal is not; pass --overwrite to begin anew")
    if output_is_there and not journal.replaces:
        raise UsageError(f"{config.output} appeared while its job ran; move it away or pass --overwrite")
    return True


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    with suppress(FileNotFoundError):
        path.unlink()
