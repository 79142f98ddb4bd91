"""The figures of one contestant, from its rounds and the baseline's outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from apps.bench.timing import Output, Timing


def agreement(outputs: Sequence[Output], reference: Sequence[Output]) -> float:
    """Share of the texts whose tokens equal the reference's."""
    return fmean(ours.token_ids == theirs.token_ids for ours, theirs in zip(outputs, reference, strict=True))


def row(timing: Timing, reference: Sequence[Output], best: Mapping[str, float | None]) -> dict[str, Any]:
    """One contestant's figures; agreement and passes are means over all rounds. `best` has rivals' times in ms."""
    passes = [out.passes for run in timing.runs for out in run.outputs if out.passes is not None]
    return {
        "name": timing.name,
        "setting": timing.setting,
        "ms": timing.ms_per_text,
        "rounds_ms": [1000.0 * run.seconds / len(run.outputs) for run in timing.runs],
        **{f"times_{rival}": ms / timing.ms_per_text if ms else None for rival, ms in best.items()},
        "identical": fmean(agreement(run.outputs, reference) for run in timing.runs),
        "passes": fmean(passes) if passes else None,
    }


def phases_ms(timings: Sequence[Timing]) -> dict[str, dict[str, float]]:
    """Milliseconds per text that each phase of our loop took in the median round, by contestant."""
    return {
        timing.name: {
            phase: 1000.0 * seconds / len(timing.median.outputs)
            for phase, seconds in timing.median.phases.items()
        }
        for timing in timings
        if timing.median.phases
    }
