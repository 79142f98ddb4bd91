"""From rows to corrected rows, a bounded number at a time.

Knows that a window goes back to its input order, however its texts were dealt out. The size of a window is also
what a kill can cost, so it follows the correctors' speed. Does not know files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from apps.gec.refusals import Refusal
from apps.gec.workers import WorkerDied, WorkerError

from .dealing import Corrected, Deal
from .errors import JobStopped
from .rows import Done, Row

MAX_WINDOW_BYTES = 8 << 20


@dataclass
class WindowSize:
    """How many rows the next window takes: about `seconds` of work, and enough to sort by length."""

    smallest: int
    largest: int
    seconds: float
    num_rows: int = 0

    def __post_init__(self) -> None:
        self.num_rows = self.smallest

    def observe(self, num_rows: int, seconds: float) -> None:
        """Learn from a finished window."""
        fitting = int(num_rows * self.seconds / max(seconds, 1e-6))
        self.num_rows = min(self.largest, max(self.smallest, fitting))


def take_window(rows: Iterator[Row], max_rows: int) -> list[Row]:
    """The next rows, fewer if they are heavy; empty at the end."""
    window: list[Row] = []
    num_bytes = 0
    while len(window) < max_rows and num_bytes < MAX_WINDOW_BYTES:
        row = next(rows, None)
        if row is None:
            break
        window.append(row)
        num_bytes += row.num_bytes
    return window


def corrected_window(
    window: Sequence[Row], deal: Deal, holds_line_breaks: bool, on_rows: Callable[[int], None]
) -> list[Done]:
    """Correct a window; `on_rows` hears how many rows are through."""
    done = [Done(row, row.text, row.reason) for row in window]  # what needs no corrector is done already
    indices = [index for index, row in enumerate(window) if row.text is not None and row.text.strip()]
    num_finished = len(window) - len(indices)
    try:
        for unit, outcomes in deal([window[index].text or "" for index in indices]):
            for place, outcome in zip(unit, outcomes, strict=True):
                row = window[indices[place]]
                done[indices[place]] = _settled(row, outcome, holds_line_breaks)
            num_finished += len(unit)
            on_rows(num_finished)
    except WorkerError as error:
        where = "" if error.index is None else f"row {window[indices[error.index]].number:,}: "
        raise JobStopped(f"{where}{error}") from error
    except WorkerDied as error:
        raise JobStopped(
            f"{error}; rows {window[0].number:,} to {window[-1].number:,} are to be done again"
        ) from error
    return done


def _settled(row: Row, outcome: Corrected | Refusal, holds_line_breaks: bool) -> Done:
    if isinstance(outcome, Refusal):
        return Done(row, None, f"refused by the corrector: {outcome.reason}")
    text = outcome.text
    if not holds_line_breaks and any(text.count(c) != (row.text or "").count(c) for c in "\n\r"):
        return Done(row, None, "the correction changes its line breaks")
    return Done(row, text)
