"""What retrieving while writing cost, and what speculation saved.

Knows counters and seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class RetrievalSeconds:
    """Wall-clock seconds: `encode` queries, `lookup` in caches, `search` in the retriever (in its thread too),
    `wait` for it with nothing else to do, `write` with the model."""

    encode: float = 0.0
    lookup: float = 0.0
    search: float = 0.0
    wait: float = 0.0
    write: float = 0.0


@dataclass
class RetrievalStats:
    """Counters of one call, for all its texts together.

    `retrievals` were settled, which plain retrieval would have asked for one by one; the retriever was called
    `calls` times, with `queries` queries. Of `guesses` that a verification looked at, `hits` were right. `steps`
    stretches were written, `lost_steps` of them rolled back with `lost_tokens`. `strides` are the guesses of each
    verification. `step` (a), `base` (b0), `per_query` (b1) in seconds and `hit_rate` (gamma) are the scheduler's
    last estimates.
    """

    retrievals: int = 0
    calls: int = 0
    queries: int = 0
    guesses: int = 0
    hits: int = 0
    roll_backs: int = 0
    steps: int = 0
    lost_steps: int = 0
    lost_tokens: int = 0
    asynchronous_calls: int = 0
    strides: list[int] = field(default_factory=list)
    step: float = 0.0
    base: float = 0.0
    per_query: float = 0.0
    hit_rate: float = 0.0
    seconds: RetrievalSeconds = field(default_factory=RetrievalSeconds)

    @property
    def saved(self) -> int:
        """Waits for the retriever that plain retrieval would have had in addition."""
        return self.retrievals - self.calls

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "saved": self.saved}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the seconds of a block to a phase."""
        started = time.perf_counter()
        try:
            yield
        finally:
            setattr(self.seconds, name, getattr(self.seconds, name) + time.perf_counter() - started)
