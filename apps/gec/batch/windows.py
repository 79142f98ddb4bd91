"""From rows to corrected rows, a bounded number at a time.

Knows that rows of similar length belong in one batch and that a window goes back to its input order. The size
of a window is also what a kill can cost, so it follows the corrector's speed. Does not know files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from .rows import Done, Row

MAX_WINDOW_BYTES = 8 << 20


class Corrected(Protocol):
    """What the job needs to know of a correction."""

    @property
    def text(self) -> str: ...


class BatchCorrector(Protocol):
    """Anything that corrects texts: one result per text, in order."""

    def correct_batch(self, texts: list[str], /) -> Sequence[Corrected]: ...


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
    window: Sequence[Row],
    corrector: BatchCorrector,
    batch_size: int,
    holds_line_breaks: bool,
    on_rows: Callable[[int], None],
) -> list[Done]:
    """Correct a window in batches of similar length; `on_rows` hears how many rows are through."""
    done = [Done(row, row.text, row.reason) for row in window]  # what needs no corrector is done already
    indices = [index for index, row in enumerate(window) if row.text is not None and row.text.strip()]
    indices.sort(key=lambda index: len(window[index].text or ""))
    num_finished = len(window) - len(indices)
    for start in range(0, len(indices), batch_size):
        batch = indices[start : start + batch_size]
        outcomes = _corrected_batch([window[index].text or "" for index in batch], corrector)
        for index, (text, reason) in zip(batch, outcomes, strict=True):
            if text is not None and not holds_line_breaks and ("\n" in text or "\r" in text):
                text, reason = None, "the correction contains a line break"
            done[index] = Done(window[index], text, reason)
        num_finished += len(batch)
        on_rows(num_finished)
    return done


def _corrected_batch(texts: list[str], corrector: BatchCorrector) -> list[tuple[str | None, str | None]]:
    """Text or reason per input. A text that the corrector refuses must not take its batch along."""
    try:
        results = corrector.correct_batch(texts)
    except ValueError as error:
        if len(texts) == 1:
            return [(None, f"refused by the corrector: {error}")]
        return [outcome for text in texts for outcome in _corrected_batch([text], corrector)]
    if len(results) != len(texts):
        raise RuntimeError(f"the corrector returned {len(results)} results for {len(texts)} texts")
    return [(result.text, None) for result in results]
