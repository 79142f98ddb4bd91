"""The parts over documents: chosen waits, real retrievers, and the grid of waits and hit rates.

Knows what is compared with what. A cell is one retriever at one price.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from apps.bench.ralm.contest import against_rereading, figures, measure
from apps.bench.ralm.indexes import bm25_index, real_indexes
from apps.bench.ralm.setting import RalmBench, engines, prompts_of
from apps.bench.ralm.waiting import PER_QUERY, Controlled, Slowed
from apps.bench.report import say
from apps.ralm import RetrievalLM, SpeculationConfig
from apps.ralm.latencies import Latencies
from apps.ralm.retrievers import Retriever
from apps.ralm.scheduler import best_plan, expected_rate
from core import Engine, SamplingParams


class Writers(NamedTuple):
    """The engine of every day, and one that keeps nothing between documents; one model."""

    engine: Engine
    forgetful: Engine

    def named(self, retriever: Retriever) -> dict[str, RetrievalLM]:
        """The contestants."""
        return {
            "rereading": RetrievalLM(self.forgetful, retriever, mode="sequential"),
            "sequential": RetrievalLM(self.engine, retriever, mode="sequential"),
            "speculative": RetrievalLM(self.engine, retriever),
        }


def latency_part(bench: RalmBench, texts: Sequence[str]) -> dict[str, Any]:
    """BM25 behind waits of chosen length."""
    prompts, writers = prompts_of(texts, bench.prompts), Writers(*engines(bench))
    retriever = bm25_index(texts)
    step = seconds_per_step(writers.engine, retriever, prompts[0], bench.max_tokens)
    cells = []
    for ratio, until in _shares(bench.ratios, bench.minutes):
        asked = Slowed(retriever, ratio * step) if ratio else retriever
        found = _cell(bench, writers, asked, prompts, until)
        latencies = Latencies(step, ratio * step, ratio * step * PER_QUERY)
        found |= {"ratio": ratio, "predicted": predicted(latencies, found["hit_rate"])}
        cells.append(found)
        say(f"b/a = {ratio:g}: {found['speedup']:.2f}x")
    return {"retriever": "bm25", "passages": len(texts), "step_ms": 1e3 * step, "cells": cells}


def real_part(bench: RalmBench, texts: Sequence[str]) -> dict[str, Any]:
    """Indexes as they are, and BM25 as a remote service."""
    prompts, writers = prompts_of(texts, bench.prompts), Writers(*engines(bench))
    cells = []
    for index in real_indexes(bench, texts):
        step = seconds_per_step(writers.engine, index.retriever, prompts[0], bench.max_tokens)
        until = time.monotonic() + 60 * bench.minutes / 4
        found = _cell(bench, writers, index.retriever, prompts, until)
        cells.append({"retriever": index.name, "about": index.about, "step_ms": 1e3 * step, **found})
        say(f"{index.name}: {found['speedup']:.2f}x")
    return {"passages": len(texts), "cells": cells}


def grid_part(bench: RalmBench, texts: Sequence[str]) -> dict[str, Any]:
    """Waits and hit rates both chosen: how the loop does beside its formula."""
    engine, prompts = engines(bench)[0], prompts_of(texts, bench.prompts)
    step = seconds_per_step(engine, Controlled(texts[:2], 1.0), prompts[0], bench.max_tokens)
    cells = []
    for ratio, until in _shares(bench.grid_ratios, bench.minutes):
        slowed = {rate: Slowed(Controlled(texts[:2], rate), ratio * step) for rate in (1.0, *bench.hit_rates)}
        models = {f"{rate}": RetrievalLM(engine, slowed[rate]) for rate in bench.hit_rates}
        plain = RetrievalLM(engine, slowed[1.0], mode="sequential")
        tallies = measure({"sequential": plain, **models}, prompts, bench.max_tokens, until)
        latencies = Latencies(step, ratio * step, ratio * step * PER_QUERY)
        for rate in bench.hit_rates:
            found = figures(tallies["sequential"], tallies[f"{rate}"])
            found |= {"ratio": ratio, "chosen_hit_rate": rate, "predicted": predicted(latencies, rate)}
            cells.append(found)
            say(f"b/a = {ratio:g}, gamma = {rate:g}: {found['speedup']:.2f}x")
    return {"step_ms": 1e3 * step, "cells": cells}


def predicted(latencies: Latencies, hit_rate: float) -> float:
    """What the scheduler's formula promises of its own choice, over plain retrieval."""
    config = SpeculationConfig()
    rate = min(max(hit_rate, 0.01), config.max_hit_rate)
    plan = best_plan(latencies, rate, config)
    return expected_rate(plan, latencies, rate, config.max_ahead) * latencies.plain


def seconds_per_step(engine: Engine, retriever: Retriever, prompt: str, max_tokens: int) -> float:
    """a: seconds of writing one stretch and encoding its query, after a warm-up."""
    params = SamplingParams(max_new_tokens=max_tokens)
    RetrievalLM(engine, retriever).generate([prompt], params)
    (done,) = RetrievalLM(engine, retriever, mode="sequential").generate([prompt], params)
    return (done.stats.seconds.write + done.stats.seconds.encode) / done.stats.steps


def _cell(
    bench: RalmBench, writers: Writers, retriever: Retriever, prompts: Sequence[str], until: float
) -> dict[str, Any]:
    tallies = measure(writers.named(retriever), prompts, bench.max_tokens, until, once=("rereading",))
    ours = tallies["speculative"]
    return {**figures(tallies["sequential"], ours), **against_rereading(tallies["rereading"], ours)}


def _shares(ratios: Sequence[float], minutes: float) -> Iterator[tuple[float, float]]:
    """Every ratio and when it is to end: dear ones get more of the minutes, what one leaves goes to the next."""
    ends = time.monotonic() + 60 * minutes
    for number, ratio in enumerate(ratios):
        share = (2 + ratio) / sum(2 + other for other in ratios[number:])
        now = time.monotonic()
        yield ratio, now + share * max(0.0, ends - now)
