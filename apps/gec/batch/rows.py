"""A row on its way from IN to OUT, and what a file format has to offer.

Knows what every format shares: a numbered row with a text or a reason why there is none. Does not know
files, models or the order in which rows are corrected.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Row:
    """One row as it was read. `source` is looked at only by the format that made it."""

    number: int  # 1-based; a CSV header is not a row
    source: Any
    num_bytes: int  # what the row weighs in memory, roughly: windows are bounded by it
    text: str | None = None
    reason: str | None = None  # why the row is rejected; None exactly when there is a text
    lost: bytes | None = None  # content that OUT cannot hold and the rejects file must


@dataclass(frozen=True, slots=True)
class Done:
    """A row after correction. A rejected one has a reason and no correction."""

    row: Row
    corrected: str | None
    reason: str | None = None


class Source(Protocol):
    """IN, opened and checked."""

    holds_line_breaks: bool  # may a text of this format contain one?

    def rows(self, skip: int) -> Iterator[Row]:
        """Every row after the first `skip`, in order."""
        ...

    def fraction(self) -> float:
        """How much of IN has been read, 0 to 1."""
        ...

    def close(self) -> None: ...


class Sink(Protocol):
    """The unfinished OUT. A mark is a place to which it can be taken back after a crash."""

    def rewind(self, mark: int) -> None:
        """Drop what was written after `mark`; 0 starts anew. Must come first."""
        ...

    def append(self, window: Sequence[Done]) -> int:
        """Write the rows, wait until they are on the disk, return the new mark."""
        ...

    def publish(self) -> None:
        """Make OUT appear, whole, in one step. Doing it twice does no harm."""
        ...

    def clean(self) -> None:
        """Remove what a published OUT no longer needs. Doing it twice does no harm."""
        ...

    def close(self) -> None: ...


def text_or_reason(value: object, max_chars: int) -> tuple[str | None, str | None]:
    """The text if it can be corrected, else why not: exactly one of the two is None."""
    if not isinstance(value, str):
        return None, f"not text: {json_type(value)}"
    if len(value) > max_chars:
        return None, f"too long: {len(value)} characters, --max-chars is {max_chars}"
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return (
            None,
            f"not Unicode text: lone surrogate U+{ord(value[error.start]):04X} at character {error.start}",
        )
    return value, None


def decoded(raw: bytes) -> tuple[str | None, str | None]:
    """The bytes as UTF-8 text, or the reason with the first bad byte and its offset."""
    try:
        return raw.decode(), None
    except UnicodeDecodeError as error:
        return None, f"not UTF-8: byte 0x{raw[error.start]:02X} at offset {error.start}"


def json_type(value: object) -> str:
    """What a person who looks at the file would call the type of `value`."""
    names = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), type(value).__name__)
