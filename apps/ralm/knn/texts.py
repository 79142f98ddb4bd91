"""Text files as they are given to the commands. Knows files."""

from __future__ import annotations

import gzip
from pathlib import Path


def read_text(path: Path) -> str:
    """The whole of a UTF-8 file, which may be gzipped. Raises ValueError, naming it, where it cannot be read."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} cannot be read as text: {error}; give a UTF-8 file, plain or gzipped"
        ) from error
    if not text.strip():
        raise ValueError(f"{path} holds no text")
    return text
