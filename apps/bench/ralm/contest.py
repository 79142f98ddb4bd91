"""Contestants that write the same prompts in turn, and the figures of who was faster. Knows no retriever.

A contest ends at its deadline, but never before every contestant has written one prompt.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from core import SamplingParams


class Writes(Protocol):
    """`RetrievalLM` and `KnnLM`."""

    def generate(
        self, prompts: Sequence[str | Sequence[int]], params: SamplingParams | None = None
    ) -> Any: ...


@dataclass
class Tally:
    """What one contestant did."""

    seconds: list[float] = field(default_factory=list)
    texts: list[list[int]] = field(default_factory=list)
    calls: int = 0
    guesses: int = 0
    hits: int = 0
    strides: list[int] = field(default_factory=list)

    def add(self, done: Any, seconds: float) -> None:
        """Count a completion."""
        self.seconds.append(seconds)
        self.texts.append(done.token_ids)
        self.calls += done.stats.calls
        self.guesses += done.stats.guesses
        self.hits += done.stats.hits
        self.strides += done.stats.strides

    @property
    def hit_rate(self) -> float:
        """Guesses that were right."""
        return self.hits / max(self.guesses, 1)


def measure(
    models: Mapping[str, Writes], prompts: Sequence[str], max_tokens: int, deadline: float,
    once: Collection[str] = (),
) -> dict[str, Tally]:  # fmt: skip
    """Every contestant writes every prompt, taking turns; those in `once` write only the first one. No prompt
    starts that would not be done at `deadline` (`time.monotonic()`)."""
    params = SamplingParams(max_new_tokens=max_tokens)
    tallies = {name: Tally() for name in models}
    last = 0.0
    for number, prompt in enumerate(prompts):
        begun = time.monotonic()
        if number and begun + last > deadline:
            break
        for name, model in models.items():
            if number and name in once:
                continue
            started = time.perf_counter()
            (done,) = model.generate([prompt], params)
            tallies[name].add(done, time.perf_counter() - started)
        last = time.monotonic() - begun
    return tallies


def figures(plain: Tally, ours: Tally) -> dict[str, Any]:
    """Ours against the plain one over the prompts that both wrote."""
    both = min(len(plain.seconds), len(ours.seconds))
    pairs = list(zip(plain.texts, ours.texts, strict=False))
    return {
        "prompts": both,
        "sequential_seconds": sum(plain.seconds[:both]),
        "speculative_seconds": sum(ours.seconds[:both]),
        "speedup": sum(plain.seconds[:both]) / sum(ours.seconds[:both]),
        "hit_rate": ours.hit_rate,
        "mean_stride": statistics.fmean(ours.strides or [1]),
        "calls": ours.calls,
        "sequential_calls": plain.calls,
        "identical": statistics.fmean(a == b for a, b in pairs),
    }


def against_rereading(rereading: Tally, ours: Tally) -> dict[str, Any]:
    """Ours against the paper's baseline, over the prompts that it wrote."""
    found = figures(rereading, ours)
    return {
        "rereading_seconds": found["sequential_seconds"],
        "speedup_over_rereading": found["speedup"],
        "identical_to_rereading": found["identical"],
    }
