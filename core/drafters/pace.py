"""Whether a pass of a draft model pays: what it takes, against what the tokens cost that it saves.

Knows seconds and tokens. Does not know models.
"""

from __future__ import annotations

import time

import torch

from core.drafters.ledger import Ledger

#: Weight of the newest measurement, and how far an outlier counts.
_RATE, _OUTLIER = 0.1, 4.0


class Pace:
    """Of one drafter. With `is_on=False` every pass pays."""

    def __init__(self, device: torch.device, is_on: bool = True) -> None:
        # As the engine's: on the CPU the wall clock would tell what else runs on the machine.
        self._clock = time.thread_time if device.type == "cpu" else time.perf_counter
        self._is_on = is_on
        self._ledger = Ledger()
        self._began = self._last = 0.0
        self._per_pass = 0.0
        self._per_token = 0.0

    @property
    def rests(self) -> bool:
        """Whether drafting has cost more than it saved of late, and is left alone for a while."""
        return self._ledger.resting > 0

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

    def proposed(self) -> None:
        """Drafting is over for this step."""
        self._ledger.seconds += self._clock() - self._began

    def finish(self, num_written: int, num_accepted: int) -> None:
        """The pass is over: so many tokens were written in all, so many of them drafted (the others are one a row)."""
        if not self._is_on:
            return
        self._per_token = _followed(self._per_token, (self._clock() - self._began) / num_written)
        num_rows = num_written - num_accepted
        if self._ledger.resting:
            self._ledger.rest(num_rows)
            self._ledger.seconds = 0.0
        else:
            self._ledger.record(num_accepted, num_accepted, num_rows)
            self._ledger.judge(self._per_token)


def _followed(known: float, seconds: float) -> float:
    """A slow mean that an outlier hardly moves."""
    return known + _RATE * (min(seconds, _OUTLIER * known) - known) if known else seconds
