"""Wall-clock seconds by phase."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from core.types import PhaseSeconds


class PhaseClock:
    """Adds the time of each phase to `seconds`."""

    def __init__(self, seconds: PhaseSeconds) -> None:
        self._seconds = seconds

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            setattr(self._seconds, name, getattr(self._seconds, name) + spent)
