"""Whether drafting earns its keep: the tokens that it brought, against the time it took.

Knows counts and seconds. Does not know drafters.
"""

from __future__ import annotations

#: Steps that a drafter is tried for before it is judged, and the shortest and longest rest after it was found wanting;
#: a pass is a step of each of its rows.
TRIAL = 24
REST, LONGEST_REST = 96, 1536


class Ledger:
    """What a drafter gained and cost while awake, and for how many steps it rests."""

    def __init__(self) -> None:
        self.claimed = 0.0
        self.gained = 0.0
        self.seconds = 0.0
        self.steps = 0
        self.resting = 0
        self._rest = REST

    def record(self, claimed: int, gained: int, steps: int = 1) -> None:
        """Steps awake: accepted tokens among its guesses, and those that would not have been had without it."""
        self.claimed += claimed
        self.gained += gained
        self.steps += steps

    def rest(self, steps: int) -> None:
        """So much of a rest is over."""
        self.resting = max(self.resting - steps, 0)

    def judge(self, seconds_per_token: float) -> None:
        """After a trial: rest if the time that the gained tokens save is less than what finding them took. A drafter
        that fails again rests twice as long; one that passes is soon judged again, by what is recent."""
        if self.steps < TRIAL:
            return
        if self.gained * seconds_per_token < self.seconds:
            self.resting = self._rest
            self._rest = min(2 * self._rest, LONGEST_REST)
            self.steps = 0
            self.claimed = self.gained = self.seconds = 0.0
        else:
            self._rest = REST
            self.steps //= 2
            self.claimed /= 2
            self.gained /= 2
            self.seconds /= 2
