"""Whether a pass of a draft model pays: what it takes, against what the tokens cost that it saves.

Knows seconds and tokens. Does not know models.
"""

from __future__ import annotations

import time

import torch

#: Weight of the newest measurement, and how far an outlier counts.
_RATE, _OUTLIER = 0.1, 4.0


class Pace:
    """Of one drafter. With `is_on=False` every pass pays."""

    def __init__(self, device: torch.device, is_on: bool = True) -> None:
        # As the engine's: on the CPU the wall clock would tell what else runs on the machine.
        self._clock = time.thread_time if device.type == "cpu" else time.perf_counter
        self._is_on = is_on
        self._began = self._last = 0.0
        self._per_pass = 0.0
        self._per_token = 0.0

    def begin(self) -> None:
        """A step begins."""
        self._began = self._last = self._clock()

    def passed(self) -> None:
        """A draft pass is over, its results on the host."""
        now = self._clock()
        self._per_pass = _followed(self._per_pass, now - self._last)
        self._last = now

    def pays(self, num_tokens: float) -> bool:
        """Whether one more pass is worth its time, if so many more tokens are expected to be accepted for it."""
        return not self._is_on or num_tokens * self._per_token >= self._per_pass or not self._per_token

    def finish(self, num_written: int) -> None:
        """The pass is over, so many tokens were written."""
        self._per_token = _followed(self._per_token, (self._clock() - self._began) / num_written)


def _followed(known: float, seconds: float) -> float:
    """A slow mean that an outlier hardly moves."""
    return known + _RATE * (min(seconds, _OUTLIER * known) - known) if known else seconds
