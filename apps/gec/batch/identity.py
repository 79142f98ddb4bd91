"""What makes two runs the same job.

Knows that the whole content of IN and whatever changes the output text count, and that paths, batch sizes,
drafters and devices do not.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import UsageError


def fingerprint(path: Path) -> dict[str, Any]:
    """Size and hash of a file. Reads all of it: seconds, against the hours of a mixed-up OUT."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
        return {"input_bytes": file.tell(), "input_hash": digest.hexdigest()}


def check_same(before: Mapping[str, Any], now: Mapping[str, Any], output: Path) -> None:
    """Raise if the job that `output` belongs to is another one, naming what differs."""
    differing = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if not differing:
        return
    if any(name.startswith("input_") for name in differing):
        what = "IN had another content"
    else:
        what = "; ".join(f"{name} was {before.get(name)!r} and is {now.get(name)!r}" for name in differing)
    raise UsageError(f"{output} belongs to another job: {what}. Name another OUT or pass --overwrite")
