"""Reading text: arguments, a file, standard input line by line.

Knows bytes and UTF-8; every error names the place and the remedy. Does not know what is done with the text.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_CHUNK = 1 << 16


class InputError(ValueError):
    """The input cannot be read as text; the message says where and what to do."""


def decode(content: bytes, name: str, offset: int = 0) -> str:
    """`content`, which begins `offset` bytes into `name`, as text. A byte order mark stays in it."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = offset + error.start
        raise InputError(
            f"{name} is not UTF-8: byte 0x{content[error.start]:02x} at offset {place}; "
            "convert it first, for example with: iconv -f WINDOWS-1252 -t UTF-8"
        ) from error


def read_file(path: Path) -> str:
    """The whole file, line ends as they are."""
    try:
        return decode(path.read_bytes(), str(path))
    except FileNotFoundError as error:
        raise InputError(f"there is no file {str(path)!r}; check the path") from error
    except IsADirectoryError as error:
        raise InputError(
            f"{str(path)!r} is a directory; give one file, or use python -m apps.gec.batch"
        ) from error
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def check_argument(text: str) -> str:
    """A command line argument; Python hides bytes that are not UTF-8 in lone surrogates."""
    decode(os.fsencode(text), "the argument")
    return text


def line_groups(stream: BinaryIO, size: int, name: str = "standard input") -> Iterator[list[str]]:
    """Lines with their ends, in groups of up to `size`: what is there is given at once, nothing is waited for."""
    rest = b""
    offset = 0  # of `rest` in the stream
    while True:
        chunk = stream.read1(_CHUNK) if hasattr(stream, "read1") else stream.read(_CHUNK)
        # Only the new bytes are searched: a line of many chunks stays linear.
        cut = chunk.rfind(b"\n")
        ready, rest = (rest + chunk[: cut + 1], chunk[cut + 1 :]) if cut >= 0 else (b"", rest + chunk)
        if not chunk:
            ready, rest = rest, b""
        lines = ready.split(b"\n")
        complete = [line + b"\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]
        for start in range(0, len(complete), size):
            group: list[str] = []
            for line in complete[start : start + size]:
                try:
                    group.append(decode(line, name, offset))
                except InputError:
                    if group:  # what came before the bad line is good
                        yield group
                    raise
                offset += len(line)
            yield group
        if not chunk:
            return
