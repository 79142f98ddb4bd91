"""The settings of retrieval while writing, and of speculation on it.

Knows numbers. Names and defaults are those of RaLMSpec (arXiv 2401.14021, section 5.1) unless said otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Method = Literal["in-context", "iter-retgen", "flare"]


@dataclass(frozen=True)
class RetrievalConfig:
    """When the model retrieves and what it then reads; decides the output.

    One document at a time: its first `document_tokens` tokens stand before the prompt, with `separator` between,
    until the next one takes their place. `method` says when that is (see the modules of these names): "in-context"
    asks with the last `query_tokens` tokens of prompt and text every `stride` tokens; "iter-retgen" with the answer,
    which it writes `iterations` times; "flare" where a token of the sentence ahead, of `lookahead` tokens at most,
    is less probable than `threshold`, with those that are at least `mask` probable.
    Raises ValueError, naming the value.
    """

    stride: int = 4
    query_tokens: int = 32
    document_tokens: int = 256
    separator: str = "\n\n"
    method: Method = "in-context"
    iterations: int = 2
    threshold: float = 0.8
    mask: float = 0.4
    lookahead: int = 64

    def __post_init__(self) -> None:
        for name in ("stride", "query_tokens", "document_tokens", "iterations", "lookahead"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        for name in ("threshold", "mask"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must lie between 0 and 1")
        if self.method not in get_args(Method):
            raise ValueError(
                f"method={self.method!r} is unknown; choose one of {', '.join(get_args(Method))}"
            )


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
        cache_size: passages that a request's cache holds, at most; the ones that no search returned for longest go.
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
    cache_size: int = 512
    as_published: bool = False

    def __post_init__(self) -> None:
        for name in ("prefetch", "steps", "max_steps", "max_ahead", "window", "cache_size"):
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
