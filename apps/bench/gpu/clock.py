"""Time: how much of it is left, and how long things take on a device that works behind the host's back."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch


class Deadline:
    """A stretch of time from now on; parts of the benchmark get parts of it."""

    def __init__(self, seconds: float) -> None:
        self._start = time.perf_counter()
        self._end = self._start + seconds

    @property
    def spent(self) -> float:
        return time.perf_counter() - self._start

    @property
    def left(self) -> float:
        return self._end - time.perf_counter()

    @property
    def is_over(self) -> bool:
        return self.left <= 0

    def part(self, seconds: float) -> Deadline:
        """At most so long, and never past the whole."""
        return Deadline(min(seconds, self.left))


def synchronize(device: torch.device) -> None:
    """Wait for the device to finish what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def free_bytes(device: torch.device) -> int:
    """Memory that a cache may still take; on a CPU a gigabyte, which the tiny shapes never need."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        free: int = torch.cuda.mem_get_info(device)[0]
        return free
    return 1 << 30


def median_ms(work: Callable[[], object], device: torch.device, warm_up: int, rounds: int) -> float:
    """Median wall-clock milliseconds of `work`, the device's part included."""
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(rounds):
        synchronize(device)
        start = time.perf_counter()
        work()
        synchronize(device)
        seconds.append(time.perf_counter() - start)
    return 1000.0 * statistics.median(seconds)
