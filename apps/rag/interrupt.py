"""Ctrl-C stops the answer, not the program.

Knows signals. While an answer is written the first Ctrl-C only sets `asked`, so that the model's pass ends in order;
a second one raises KeyboardInterrupt as ever.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class StopOnInterrupt:
    """A block in which Ctrl-C is noted. In other threads than the main one it does nothing."""

    def __init__(self) -> None:
        self.asked = False
        self._before: signal.Handlers | None = None

    def __enter__(self) -> StopOnInterrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)  # type: ignore[assignment]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
