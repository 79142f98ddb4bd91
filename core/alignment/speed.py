"""How much faster a draft model makes its target on this machine: several of them against plain decoding, in turn.

Knows engines, draft models and clocks. Does not know how they were trained.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from core.drafters.base import Drafter
from core.drafters.draft_model import DraftModel
from core.engine import Engine
from core.targets.base import Target
from core.types import Request, SamplingParams

#: Groups of prompts that are decoded once before the clock runs: engines learn what passes cost.
_WARM_UP = 4


@dataclass
class _Runner:
    """An engine, and what it did: by group of prompts the (wall, CPU) seconds of each round and the tokens."""

    engine: Engine
    seconds: list[list[tuple[float, float]]]
    tokens: list[list[list[int]]] = field(default_factory=list)
    emitted: int = 0
    passes: int = 0

    def run(self, group: int, requests: Seq[Request]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        done = self.engine.generate(requests)
        self.seconds[group].append((time.perf_counter() - wall, time.process_time() - cpu))
        if len(self.tokens) == group:
            self.tokens.append([one.token_ids for one in done])
        self.emitted += sum(one.stats.emitted for one in done)
        self.passes += sum(one.stats.target_calls for one in done)

    def total(self, clock: int) -> float:
        """Seconds over all groups: the sum of each group's median."""
        return sum(median(one[clock] for one in rounds) for rounds in self.seconds)


def times_plain(
    target: Target,
    drafts: Seq[Target],
    tokenizer: Any,
    prompts: Seq[Seq[int]],
    *,
    rounds: int = 3,
    rows: int = 1,
    temperature: float = 0.0,
    max_new_tokens: int = 128,
) -> list[dict[str, float]]:
    """Decode the prompts, `rows` at once, plainly and with each draft model, in turn, `rounds` times.

    Returns for each draft: `times`, the total wall-clock time of plain decoding over its own, `times_cpu`, the same of
    CPU time, `tokens_per_pass` and `identical`, the share of equal outputs. Times are medians over the rounds, group of
    prompts by group. The budget is that of any engine: drafting rests while it costs more than it saves.
    """
    params = SamplingParams(temperature=temperature, max_new_tokens=max_new_tokens)
    requests = [Request(prompt, params=params) for prompt in prompts]
    groups = [requests[i : i + rows] for i in range(0, len(requests), rows)]
    drafters: list[str | Drafter] = ["none", *(DraftModel(target, draft) for draft in drafts)]
    engines = [Engine(target, tokenizer, one, max_rows=rows, prefix_rows=0) for one in drafters]
    for engine in engines:
        for group in groups[:_WARM_UP]:
            engine.generate(group)
    runners = [_Runner(engine, [[] for _ in groups]) for engine in engines]
    for number in range(rounds):
        for g, group in enumerate(groups):
            # Who begins changes from group to group and round to round.
            first = (number + g) % len(runners)
            for runner in runners[first:] + runners[:first]:
                runner.run(g, group)
    plain, *others = runners
    return [_figures(plain, other, len(prompts)) for other in others]


def _figures(plain: _Runner, other: _Runner, num_prompts: int) -> dict[str, float]:
    equal = (
        a == b for x, y in zip(plain.tokens, other.tokens, strict=True) for a, b in zip(x, y, strict=True)
    )
    return {
        "times": plain.total(0) / other.total(0),
        "times_cpu": plain.total(1) / other.total(1),
        "tokens_per_pass": other.emitted / other.passes,
        "identical": sum(equal) / num_prompts,
    }
