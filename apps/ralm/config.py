"""The settings of retrieval while writing, and of speculation on it.

Knows numbers. Names and defaults are those of RaLMSpec (arXiv 2401.14021, section 5.1) unless said otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RetrievalConfig:
    """When the model retrieves and what it then reads; decides the output.

    Every `stride` tokens the last `query_tokens` tokens of prompt and text ask for one document, whose first
    `document_tokens` tokens stand before the prompt, with `separator` between, until the next one takes their place.
    Raises ValueError, naming the value.
    """

    stride: int = 4
    query_tokens: int = 32
    document_tokens: int = 256
    separator: str = "\n\n"

    def __post_init__(self) -> None:
        for name in ("stride", "query_tokens", "document_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")


@dataclass(frozen=True)
class SpeculationConfig:
    """How retrievals are guessed and checked; decides the speed, never the output.

    Args:
        prefetch: documents that every verification puts into the request's cache; 1 switches prefetching off.
        scheduler: choose how many guesses a verification covers by what it gains (OS³); else always `steps`.
        asynchronous: verify in a thread while the next steps are written.
        steps: guesses per verification without the scheduler.
        max_steps: and with it, at most.
        max_ahead: steps that may be written while one verification runs (the paper: 1).
        window: verifications from which the hit rate is estimated.
        max_hit_rate: cap of that estimate. The paper's 0.6 keeps strides short where guesses are nearly always
            right; its own tables show fixed strides of 4 and 8 ahead of the scheduler then.
        prior_hits: guesses counted as right beforehand, so that one early miss does not end speculation.
        as_published: the paper's objective, which neglects what a miss costs and never waits for a verification
            where it may go on; else `scheduler.expected_rate`.
    """

    prefetch: int = 20
    scheduler: bool = True
    asynchronous: bool = True
    steps: int = 3
    max_steps: int = 64
    max_ahead: int = 16
    window: int = 5
    max_hit_rate: float = 0.95
    prior_hits: float = 1.0
    as_published: bool = False

    def __post_init__(self) -> None:
        for name in ("prefetch", "steps", "max_steps", "max_ahead", "window"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if not 0 < self.max_hit_rate < 1:
            raise ValueError(f"max_hit_rate={self.max_hit_rate} must lie between 0 and 1")
        if self.prior_hits < 0:
            raise ValueError(f"prior_hits={self.prior_hits} must be 0 or greater")

    @classmethod
    def paper(cls) -> SpeculationConfig:
        """RaLMSpec+PSA as published."""
        return cls(max_ahead=1, max_hit_rate=0.6, prior_hits=0.0, as_published=True)
