"""`OUT.rejects.jsonl`: which rows were left alone, and why.

Knows the line for a rejected row: `row` (1-based), `reason`, and, only where OUT could not keep the row,
its content as `raw`, or as `raw_base64` if that is not UTF-8.
"""

import base64
import json
from collections.abc import Sequence

from .rows import Done, decoded


def rejects_lines(window: Sequence[Done]) -> list[bytes]:
    """The lines for the rejected rows of a window, in its order."""
    return [_line(done) for done in window if done.reason is not None]


def _line(done: Done) -> bytes:
    entry: dict[str, object] = {"row": done.row.number, "reason": done.reason}
    if done.row.lost is not None:
        text, reason = decoded(done.row.lost)
        if reason is None:
            entry["raw"] = text
        else:
            entry["raw_base64"] = base64.b64encode(done.row.lost).decode()
    return json.dumps(entry, ensure_ascii=False).encode() + b"\n"
