"""What a job has safely done, on disk beside OUT.

Knows one header line (which job this is) and one line per commit; the last whole line counts, one torn by a
kill does not. Does not know formats: a mark is a number that the sink understands. The journal outlives the
job: it tells a finished OUT of this job from somebody else's file.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from .errors import UsageError

VERSION = 1
State = Literal["running", "complete", "published"]


@dataclass(frozen=True)
class Commit:
    """How far a job is. Everything it counts is on the disk."""

    rows: int = 0
    changed: int = 0
    rejected: int = 0
    mark: int = 0  # of the sink
    rejects_bytes: int = 0
    state: State = "running"


START = Commit()


class Journal:
    """The journal of one job."""

    def __init__(
        self,
        path: Path,
        identity: Mapping[str, Any],
        replaces: bool,
        last: Commit = START,
        is_new: bool = False,
    ) -> None:
        self.path = path
        self.identity = identity
        self.replaces = replaces  # the person agreed that an older OUT goes
        self.last = last
        self.is_new = is_new  # nothing is on the disk before `begin`

    def begin(self) -> None:
        """Write the header, in place of any journal that is there."""
        _replace(self.path, [_header(self.identity, self.replaces)])
        self.is_new = False

    @classmethod
    def load(cls, path: Path) -> "Journal | None":
        """The journal at `path`, if there is one; a torn last line is cut off."""
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        with file:
            header = _parsed(file.readline())
            if header is None or header.get("echodraft_gec_batch") != VERSION:
                raise UsageError(f"{path} is not a journal of this version; move it away or pass --overwrite")
            last, num_bytes = Commit(), file.tell()
            while (entry := _parsed(file.readline())) is not None:
                last, num_bytes = Commit(**entry), file.tell()
        os.truncate(path, num_bytes)
        return cls(path, header["identity"], header["replaces"], last)

    def commit(self, commit: Commit) -> None:
        """Note progress; when this returns, a crash does not undo it."""
        with self.path.open("ab") as file:
            file.write(_line(asdict(commit)))
            file.flush()
            os.fsync(file.fileno())
        self.last = commit

    def compact(self) -> None:
        """Keep only the header and the last commit."""
        _replace(self.path, [_header(self.identity, self.replaces), _line(asdict(self.last))])


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _header(identity: Mapping[str, Any], replaces: bool) -> bytes:
    return _line({"echodraft_gec_batch": VERSION, "identity": dict(identity), "replaces": replaces})


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The entry on a whole line; None for a torn or foreign one and at the end."""
    if not line.endswith(b"\n"):
        return None
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _replace(path: Path, lines: list[bytes]) -> None:
    """Write the file in one step: it is never seen half written."""
    draft = path.with_name(path.name + ".new")
    with draft.open("wb") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    sync_folder(path.parent)
