"""Guess the neighbours of the next tokens from a cache, ask for all of them at once, keep what was right.

Knows rows of tokens, an engine and a datastore. A guess is right where the next token is (RaLMSpec, arXiv
2401.14021, section 5.3): the true neighbours go through the same mixture, and the same noise of the same position
chooses, so that greedy and sampled texts are those of plain KNN-LM. The token of a miss is known from its
verification, so that every round settles at least one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from core import Engine, Request, SamplingParams
from core.sampling import perturbed_scores
from core.text import TextStream
from core.types import FinishReason

from ..config import SpeculationConfig
from ..latencies import Spent
from ..scheduler import Plan, Scheduler
from ..stats import RetrievalStats
from .cache import NeighbourCache
from .config import KnnConfig
from .datastore import DEPTH, Datastore, Neighbours
from .mixture import KnnTransform, Lookup, Step, mix

#: Tokens that are written at a time where nothing is guessed.
_PLAIN = 4
#: Tokens that are drafted at a time while a verification runs.
_AHEAD = 2


@dataclass(eq=False)
class KnnRow:
    """`written` is settled; `drafted` tokens and the steps that chose them wait to be verified."""

    prompt: list[int]
    params: SamplingParams
    cache: NeighbourCache
    stream: TextStream
    written: list[int] = field(default_factory=list)
    drafted: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    finish_reason: FinishReason | None = None

    @property
    def left(self) -> int:
        """Tokens that may still be drafted."""
        return self.params.max_new_tokens - len(self.written) - len(self.drafted)


class KnnSpeculation:
    """Writes the rows of one call. What the scheduler learned from earlier calls goes on to count."""

    def __init__(
        self,
        engine: Engine,
        datastore: Datastore,
        config: KnnConfig,
        speculation: SpeculationConfig,
        stats: RetrievalStats,
        scheduler: Scheduler,
    ) -> None:
        self.scheduler = scheduler
        self._engine = engine
        self._datastore = datastore
        self._config = config
        self._speculation = speculation
        self._stats = stats
        # Neighbours beyond the k that are mixed cost next to nothing.
        self._brought = max(config.k, DEPTH) if speculation.prefetch > 1 else config.k

    def write(self, rows: Sequence[KnnRow]) -> None:
        """Write all rows to their ends. Errors of the datastore are raised here; no thread outlives the call."""
        with ThreadPoolExecutor(1, "verification") as executor:
            while live := [row for row in rows if row.finish_reason is None]:
                if not any(row.drafted for row in live) and self.scheduler.is_hopeless(len(live)):
                    self._write_plainly(live)
                    continue
                started, settled = time.perf_counter(), self._stats.retrievals
                is_fresh = any(not len(row.cache) for row in live)
                plan = Plan(1, False) if is_fresh else self.scheduler.plan(len(live))
                self._draft(live, [plan.steps] * len(live))
                sizes = [len(row.drafted) for row in live]
                queries = np.stack([step.query for row in live for step in row.steps])
                future = executor.submit(self._search, queries, self._brought)
                writing = self._draft_ahead(live, sizes, future) if plan.asynchronous else 0.0
                self._settle(live, sizes, self._result(future, writing), is_fresh)
                self._count(plan, len(queries), max(sizes))
                if plan != Plan(1, False):
                    seconds = time.perf_counter() - started
                    self.scheduler.record(plan, seconds, self._stats.retrievals - settled, len(live))

    def _write_plainly(self, rows: Sequence[KnnRow]) -> None:
        """Write a stretch with the datastore's own neighbours for every token, where nothing is worth guessing."""
        transform = KnnTransform(self._retrieve, self._config)
        requests = [
            Request(
                row.prompt + row.written,
                params=replace(row.params, max_new_tokens=min(_PLAIN, row.left), stop=()),
                transform=transform,
                noise_start=len(row.written),
            )
            for row in rows
        ]
        stats = self._stats
        settled, searched = stats.retrievals, stats.seconds.search
        with Spent.measured() as spent:
            completions = self._engine.generate(requests)
        for row, done in zip(rows, completions, strict=True):
            for token in done.token_ids:
                if row.finish_reason is None:
                    self._append(row, token)
                    stats.retrievals, stats.steps = stats.retrievals + 1, stats.steps + 1
        writing = spent.less(stats.seconds.search - searched)
        stats.seconds.write += writing.seconds
        self.scheduler.fit.record_step(writing.over(max(len(done.token_ids) for done in completions)))
        self.scheduler.record(Plan(1, False), spent.seconds, stats.retrievals - settled, len(rows))

    def _retrieve(self, queries: np.ndarray) -> list[Neighbours]:
        """Ask the datastore in the middle of a pass."""
        found, spent = self._search(queries, self._config.k)
        self.scheduler.fit.record_alone(len(found), spent)
        self._stats.seconds.search += spent.seconds
        self._stats.calls += 1
        self._stats.queries += len(found)
        return found

    def _draft_ahead(self, rows: Sequence[KnnRow], sizes: Sequence[int], future: Future[Any]) -> float:
        """Write on while a verification runs; the seconds of it."""
        started = time.perf_counter()
        ahead, most, goes_on = 0, self._speculation.max_ahead, True
        while goes_on and ahead < most and not future.done():
            ahead = min(most, ahead + _AHEAD)
            goes_on = self._draft(rows, [size + ahead for size in sizes], is_beside=True)
        return time.perf_counter() - started

    def _draft(self, rows: Sequence[KnnRow], sizes: Sequence[int], is_beside: bool = False) -> bool:
        """Write on with neighbours from the caches, until so many tokens of a row are drafted; False if none was.
        `is_beside`: while a verification runs."""
        asked: list[tuple[KnnRow, KnnTransform, list[int]]] = []
        requests = []
        for row, size in zip(rows, sizes, strict=True):
            num_tokens = min(size - len(row.drafted), row.left)
            if num_tokens <= 0 or (row.drafted and row.drafted[-1] in self._engine.target.eos_token_ids):
                continue
            transform = KnnTransform(self._looking_up(row), self._config, keeps=True)
            params = replace(row.params, max_new_tokens=num_tokens, stop=())
            before = row.prompt + row.written + row.drafted
            start = len(row.written) + len(row.drafted)
            requests.append(Request(before, params=params, transform=transform, noise_start=start))
            asked.append((row, transform, before))
        looked_up, longest = self._stats.seconds.lookup, 0
        with Spent.measured() as spent:
            completions = self._engine.generate(requests)
        for (row, transform, before), done in zip(asked, completions, strict=True):
            row.drafted += done.token_ids
            row.steps += transform.steps(before + done.token_ids, len(before))
            longest = max(longest, len(done.token_ids))
            self._stats.steps += len(done.token_ids)
        if longest:
            lookup = self._stats.seconds.lookup - looked_up
            writing = spent.less(lookup)
            self._stats.seconds.write += writing.seconds
            self.scheduler.fit.record_step(writing.over(longest), is_beside)
            self.scheduler.fit.record_lookup(lookup / longest)
        return longest > 0

    def _looking_up(self, row: KnnRow) -> Lookup:
        def lookup(queries: np.ndarray) -> list[Neighbours]:
            with self._stats.phase("lookup"):
                return row.cache.search(queries, self._config.k)

        return lookup

    def _search(self, queries: np.ndarray, k: int) -> tuple[list[Neighbours], Spent]:
        with Spent.measured() as spent:
            found = self._datastore.search(queries, k)
        return found, spent

    def _result(self, future: Future[tuple[list[Neighbours], Spent]], writing: float) -> list[Neighbours]:
        """What a verification found; beside it tokens were drafted for `writing` seconds."""
        with self._stats.phase("wait"):
            found, spent = future.result()
        self._stats.seconds.search += spent.seconds
        if writing:
            self.scheduler.fit.record_beside(len(found), spent, writing)
        else:
            self.scheduler.fit.record_alone(len(found), spent)
        return found

    def _settle(
        self, rows: Sequence[KnnRow], sizes: Sequence[int], found: list[Neighbours], is_fresh: bool
    ) -> None:
        start, hits, misses = 0, 0, 0
        for row, size in zip(rows, sizes, strict=True):
            mine = found[start : start + size]
            matched, missed = self._settle_row(row, [one.first(self._config.k) for one in mine])
            row.cache.add(mine)
            start += size
            hits, misses = hits + matched, misses + missed
        self._stats.retrievals += hits + misses
        if not is_fresh:
            self.scheduler.hit_rate.record(hits, misses)
            self._stats.guesses += hits + misses
            self._stats.hits += hits

    def _settle_row(self, row: KnnRow, found: Sequence[Neighbours]) -> tuple[int, bool]:
        """How many drafted tokens stand, and whether one did not; what was drafted behind it goes."""
        matched, missed = 0, False
        while matched < len(found) and not missed and row.finish_reason is None:
            token = self._choose(row, row.steps[matched], found[matched])
            missed = token != row.drafted[matched]
            matched += not missed
            self._append(row, token)
        if missed or row.finish_reason is not None:
            lost = len(row.drafted) - matched - missed
            self._stats.lost_tokens += lost + missed
            self._stats.lost_steps += lost + missed
            self._stats.roll_backs += missed
            row.drafted, row.steps = [], []
        else:
            del row.drafted[:matched], row.steps[:matched]
        return matched, missed

    def _choose(self, row: KnnRow, step: Step, neighbours: Neighbours) -> int:
        """The token that plain KNN-LM chooses here."""
        logits = mix(step.logits, neighbours, self._config)[None]
        logits[:, list(self._engine.target.suppressed_token_ids)] = -torch.inf
        return int(perturbed_scores(logits, row.params, [len(row.written)]).argmax())

    def _append(self, row: KnnRow, token: int) -> None:
        row.written.append(token)
        if row.stream.push(token) or token in self._engine.target.eos_token_ids:
            row.finish_reason = "stop"
        elif len(row.written) == row.params.max_new_tokens:
            row.finish_reason = "length"

    def _count(self, plan: Plan, num_queries: int, stride: int) -> None:
        stats, scheduler = self._stats, self.scheduler
        stats.calls += 1
        stats.queries += num_queries
        stats.asynchronous_calls += plan.asynchronous
        stats.strides.append(stride)
        stats.hit_rate = scheduler.hit_rate.value
        latencies = scheduler.fit.latencies()
        stats.step, stats.base, stats.per_query = latencies.step, latencies.base, latencies.per_query
