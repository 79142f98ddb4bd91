"""The figures of a cell, from its rounds.

Knows numbers. A ratio is one of sums: total time of plain decoding over total time with the drafter, where the time
of a group of prompts is its median over the rounds.
"""

from __future__ import annotations

import statistics
from typing import Any


def row(cell: dict[str, Any], state: str) -> dict[str, Any]:
    """The figures of a cell in one state ("cold" or "warm"): what a line of the table holds."""
    rounds = cell["rounds"]
    sides = [one[state] for one in rounds]
    tokens, passes = _sum(sides, "tokens"), _sum(sides, "passes")
    return {
        "drafter": cell["drafter"],
        "rule": cell["rule"],
        "state": state,
        "times": _median_total(rounds, "plain", "wall") / _median_total(rounds, state, "wall"),
        "times_cpu": _median_total(rounds, "plain", "cpu") / _median_total(rounds, state, "cpu"),
        "tokens_per_pass": tokens / passes,
        "nodes_per_pass": _sum(sides, "nodes") / passes,
        "draft_share": _sum(sides, "draft_seconds") / _sum(sides, "loop_seconds"),
        "identical": _sum(sides, "identical") / _sum(sides, "outputs"),
        "bytes": cell["bytes"],
        "loss": cell["loss"],
        "rounds": len(rounds),
    }


def _sum(sides: list[dict[str, Any]], name: str) -> float:
    return float(sum(side[name] for side in sides))


def _median_total(rounds: list[dict[str, Any]], side: str, clock: str) -> float:
    """Seconds over all groups: the sum of each group's median."""
    return sum(statistics.median(times) for times in zip(*(one[side][clock] for one in rounds), strict=True))


def places(result: dict[str, Any]) -> list[tuple[tuple[str, float, int], list[dict[str, Any]]]]:
    """(prompts, temperature, rows) and the cells measured there, in the order in which they were."""
    found: dict[tuple[str, float, int], list[dict[str, Any]]] = {}
    for cell in result["cells"].values():
        if cell["rounds"]:
            found.setdefault((cell["prompts"], cell["temperature"], cell["rows"]), []).append(cell)
    return list(found.items())
