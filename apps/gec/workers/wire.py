"""What goes through the pipes between a pool and its workers: one JSON value a line.

Lone surrogates, which JSON's escapes could join to one character, pass as they are.
"""

from __future__ import annotations

import json
from typing import Any

#: Errors of loading that the parent raises as its own; the first that fits.
LOAD_ERRORS: dict[str, type[Exception]] = {
    "ImportError": ImportError,
    "ValueError": ValueError,
    "OSError": OSError,
}


def line(message: Any) -> bytes:
    """The message as a line."""
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def parsed(received: bytes) -> Any:
    """The message of a line."""
    return json.loads(received.decode("utf-8", "surrogatepass"))
