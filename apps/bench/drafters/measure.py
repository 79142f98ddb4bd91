"""One cell of the table: a drafter in turn with plain decoding over the same prompts.

Knows engines, prompts and clocks. Does not know files or tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from apps.bench.drafters.entries import Entry
from apps.bench.drafters.loss import total_variation
from apps.bench.drafters.prompts import Prompt
from apps.bench.drafters.watched import Watched
from core import Completion, Engine, Request, SamplingParams
from core.budget import Budget, FixedBudget
from core.drafters.base import Drafter
from core.targets.base import Target

#: First passes looked at for the total variation, and seeds of each.
_TV_PASSES, _TV_SEEDS = 12, 128
SIDES = ("plain", "cold", "warm")


@dataclass(frozen=True)
class Place:
    """Where a drafter is measured: a set of prompts, a temperature, rows at once."""

    prompts: str
    temperature: float
    rows: int


@dataclass
class Side:
    """One round of plain decoding, of the cold drafter, or of the warm one; times by group of prompts."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    tokens: int = 0
    passes: int = 0
    nodes: int = 0
    identical: int = 0
    outputs: int = 0
    draft_seconds: float = 0.0
    loop_seconds: float = 0.0

    def add(self, done: list[Completion], wall: float, cpu: float) -> None:
        """Count a group's outputs."""
        self.wall.append(wall)
        self.cpu.append(cpu)
        self.outputs += len(done)
        for one in done:
            self.tokens += one.stats.emitted
            self.passes += one.stats.target_calls
            self.nodes += one.stats.drafted


class Racer:
    """Plain decoding and one entry on one target, over prompts in groups of `place.rows`."""

    def __init__(
        self, target: Target, tokenizer: Any, entry: Entry, place: Place, max_new_tokens: int, nodes: int
    ) -> None:
        self._target, self._tokenizer, self._entry = target, tokenizer, entry
        self._rows = place.rows
        self._params = SamplingParams(temperature=place.temperature, max_new_tokens=max_new_tokens)
        self._engines = {side: self._engine(side, nodes) for side in SIDES}
        self._is_ready = False

    def _engine(self, side: str, nodes: int) -> Engine:
        budget: Budget | None = FixedBudget(nodes) if nodes else None
        return Engine(
            self._target,
            self._tokenizer,
            "none",
            verification="exact" if side == "plain" else self._entry.rule,
            max_rows=self._rows,
            prefix_rows=0,
            budget=budget,
        )

    def round(
        self, number: int, prompts: list[Prompt], earlier: list[Prompt]
    ) -> tuple[dict[str, Side], Watched]:
        """Every group once with each side; who begins changes from group to group and round to round.

        `earlier` is what the warm drafter has decoded before. Also returned: what was seen of it then.
        """
        watched = self._warm_up(earlier, is_first=not self._is_ready)
        self._engines["warm"].drafter = watched.inner
        sides = {side: Side() for side in SIDES}
        before = {side: self._clock(side) for side in SIDES}
        for g, group in enumerate(self._groups(prompts)):
            self._swap("cold", self._entry.make())
            first = (number + g) % len(SIDES)
            outputs = {}
            for side in SIDES[first:] + SIDES[:first]:
                outputs[side] = self._timed(side, group, sides[side])
            for side in SIDES:
                same = (a == b for a, b in zip(outputs[side], outputs["plain"], strict=True))
                sides[side].identical += sum(same)
        for side, (draft, loop) in before.items():
            now = self._clock(side)
            sides[side].draft_seconds, sides[side].loop_seconds = now[0] - draft, now[1] - loop
            # What a drafter has learnt is not kept between rounds.
            self._engines[side].drafter = Drafter()
        return sides, watched

    def _warm_up(self, earlier: list[Prompt], is_first: bool) -> Watched:
        """A drafter that has decoded the earlier prompts. The first time, engines learn what passes cost."""
        watched = Watched(self._entry.make(), [self._target, self._tokenizer], _TV_PASSES)
        self._swap("warm", watched)
        for group in self._groups(earlier):
            self._engines["warm"].generate(group)
            if is_first:
                self._engines["plain"].generate(group)
                self._swap("cold", self._entry.make())
                self._engines["cold"].generate(group)
        self._is_ready = True
        return watched

    def _timed(self, side: str, group: list[Request], into: Side) -> list[list[int]]:
        """The tokens written for a group; its figures are added to `into`."""
        wall, cpu = time.perf_counter(), time.process_time()
        done = self._engines[side].generate(group)
        into.add(done, time.perf_counter() - wall, time.process_time() - cpu)
        return [one.token_ids for one in done]

    def _clock(self, side: str) -> tuple[float, float]:
        seconds = self._engines[side].stats.seconds
        return seconds.propose + seconds.observe, seconds.total

    def _swap(self, side: str, drafter: Drafter) -> None:
        drafter.read_vocabulary(self._tokenizer)
        drafter.read_verification(self._engines[side].chooser.rule)
        self._engines[side].drafter = drafter

    def _groups(self, prompts: list[Prompt]) -> Iterable[list[Request]]:
        requests = [
            Request(
                prompt.text,
                prompt.sources,
                prediction=prompt.prediction,
                params=replace(self._params, seed=number),
            )
            for number, prompt in enumerate(prompts)
        ]
        return (requests[i : i + self._rows] for i in range(0, len(requests), self._rows))


def loss_of(entry: Entry, place: Place, watched: Watched) -> dict[str, float] | None:
    """The total variation of a rule that is not the exact one, where tokens are sampled."""
    if entry.rule == "exact" or place.temperature == 0:
        return None
    return total_variation(entry.rule, watched.first_passes, _TV_SEEDS)
