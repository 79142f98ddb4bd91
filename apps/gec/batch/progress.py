"""Telling a person how the job goes, on standard error.

Knows a bar for terminals and a line now and then for log files. Does not know what a row is; time left comes
from the fraction of IN that is read, because nobody has counted its rows.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

LINE_SECONDS = 30.0


class Progress(Protocol):
    """What the job reports to."""

    def update(self, rows: int, rejected: int, fraction: float) -> None:
        """`rows` and `rejected` since the job began, `fraction` of IN that is done, 0 to 1."""
        ...


class Silence:
    """For callers who want no progress."""

    def update(self, rows: int, rejected: int, fraction: float) -> None:
        pass


class Pace:
    """Rate and time left of this run; an earlier run's rows count neither way."""

    def __init__(self) -> None:
        self._start: tuple[float, int, float] | None = None

    def describe(self, rows: int, fraction: float) -> str:
        now = time.monotonic()
        if self._start is None:
            self._start = (now, rows, fraction)
        start, rows_before, fraction_before = self._start
        seconds, gained = now - start, fraction - fraction_before
        if seconds <= 0 or gained <= 0:
            return "starting"
        left = seconds * (1 - fraction) / gained
        return f"{(rows - rows_before) / seconds:,.1f} rows/s, {clock(left)} left"


class Lines:
    """A line every half minute, for log files and pipes."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._last = time.monotonic()

    def update(self, rows: int, rejected: int, fraction: float) -> None:
        pace = self._pace.describe(rows, fraction)
        if time.monotonic() - self._last >= LINE_SECONDS:
            self._last = time.monotonic()
            print(
                f"{fraction:4.0%}  {rows:,} rows, {rejected:,} rejected, {pace}", file=sys.stderr, flush=True
            )


def clock(seconds: float) -> str:
    """Hours, minutes and seconds: 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A bar if standard error is a terminal, else lines."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"))
    with Bars(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("starting", total=1.0)
        pace = Pace()

        class Bar:
            def update(self, rows: int, rejected: int, fraction: float) -> None:
                text = f"{rows:,} rows, {rejected:,} rejected, {pace.describe(rows, fraction)}"
                bars.update(task, completed=fraction, description=text)

        yield Bar()
