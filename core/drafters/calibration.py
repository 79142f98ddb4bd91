"""Acceptance estimates learnt while decoding: how often did a guess of this kind come true?

Knows counts under hashable keys. Does not know what a key means.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable


class Calibration:
    """Beta-style estimates with a prior for each key and slow forgetting.

    `prior(key)` gives the first estimate; it weighs as much as `strength` observations. Counts are halved at
    `horizon` trials, so that a change of text is noticed.
    """

    def __init__(self, prior: Callable[..., float], strength: float = 6.0, horizon: float = 4000.0) -> None:
        self._prior = prior
        self._strength = strength
        self._horizon = horizon
        self._counts: dict[Hashable, list[float]] = {}
        self._estimates: dict[Hashable, float] = {}

    def estimate(self, key: Hashable) -> float:
        """Probability that a guess of this kind is accepted, given that its parent was."""
        found = self._estimates.get(key)
        if found is None:
            found = self._estimates[key] = self._prior(key)
        return found

    def record(self, key: Hashable, accepted: bool) -> None:
        counts = self._counts.get(key)
        if counts is None:
            prior = self._prior(key)
            counts = self._counts[key] = [prior * self._strength, self._strength]
        counts[0] += accepted
        counts[1] += 1.0
        if counts[1] > self._horizon:
            counts[0] *= 0.5
            counts[1] *= 0.5
        self._estimates[key] = counts[0] / counts[1]

    def record_all(self, trials: Iterable[tuple[Hashable, bool]]) -> None:
        """Keys, and whether their guesses were accepted, as `trials.tried` finds them."""
        for key, accepted in trials:
            self.record(key, accepted)
