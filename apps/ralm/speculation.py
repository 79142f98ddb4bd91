"""Guess what the retrieval will say, write on, verify many guesses in one call, roll back at the first miss.

Knows rows, a retriever and a generator, and when to do what. RaLMSpec (arXiv 2401.14021, algorithm 1): the output is
that of `sequential`, token for token. Several texts share each verification.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from .config import SpeculationConfig
from .generator import Generator
from .latencies import Spent
from .retrievers import Query, Retriever
from .row import Row
from .scheduler import Plan, Scheduler
from .stats import RetrievalStats

Answers = list[list[str]]
#: Of the verifications that no guess hangs on, so many in turn go without one and the next one learns the hit rate.
_UNTESTED = 3


class Speculation:
    """Writes the rows of one call. What the scheduler learned from earlier calls goes on to count."""

    def __init__(
        self, generator: Generator, retriever: Retriever, config: SpeculationConfig, stats: RetrievalStats,
        scheduler: Scheduler,
    ) -> None:  # fmt: skip
        self.scheduler = scheduler
        self._generator = generator
        self._retriever = retriever
        self._config = config
        self._stats = stats
        self._encoding = Spent()
        self._num_plain = 0

    def write(self, rows: Sequence[Row]) -> Iterator[None]:
        """Write all rows to their ends; one yield for every verification.

        An error of the retriever is raised here, whichever thread it came up in. No thread outlives the iterator.
        """
        with ThreadPoolExecutor(1, "verification") as executor:
            while live := [row for row in rows if not row.is_settled]:
                started, settled = time.perf_counter(), self._stats.retrievals
                is_first = not all(row.documents for row in live)
                plan = Plan(1, False) if is_first else self.scheduler.plan(len(live))
                is_blind = is_first or self._goes_blind(live, plan)
                self._fill(live, plan.steps, is_blind)
                if any(row.pending for row in live):
                    self._verify(live, plan, executor, is_blind)
                if is_first:
                    self._write(live)  # how long a step takes must be known before the next plan
                elif is_blind or plan != Plan(1, False):
                    seconds = time.perf_counter() - started
                    self.scheduler.record(plan, seconds, self._stats.retrievals - settled, len(live))
                yield

    def _goes_blind(self, rows: Sequence[Row], plan: Plan) -> bool:
        """Whether nothing is guessed, because plain retrieval is fastest now and a lookup only costs."""
        if plan != Plan(1, False) or not self._config.scheduler or any(row.pending for row in rows):
            return False
        if self.scheduler.is_hopeless(len(rows)):
            return True
        self._num_plain += 1
        return self._num_plain % (_UNTESTED + 1) > 0

    def _fill(self, rows: Sequence[Row], steps: int, is_blind: bool) -> None:
        """Guess and write until a row has `steps` guesses, the last of them not written on yet."""
        while True:
            self._guess(rows, is_blind)
            if max(len(row.pending) for row in rows) >= steps or not self._write(rows):
                return

    def _guess(self, rows: Sequence[Row], is_blind: bool = False) -> None:
        """Answer the rows that ask from their own caches; blindly: with nothing, which nobody will write on."""
        asking = [row for row in rows if row.finish_reason is None and not row.is_chosen]
        if not asking:
            return
        with self._stats.phase("encode"), Spent.measured() as encoding:
            queries = self._retriever.encode([self._generator.query(row) for row in asking])
        started = time.perf_counter()
        with self._stats.phase("lookup"):
            for row, query in zip(asking, queries, strict=True):
                row.guess(query, None if is_blind else row.cache.best(query))
        self._encoding = encoding
        if not is_blind:
            self.scheduler.fit.record_lookup(time.perf_counter() - started)

    def _write(self, rows: Sequence[Row], is_beside: bool = False) -> bool:
        """Write a stretch of every row that goes on, perhaps beside a verification; False if none does."""
        going = [row for row in rows if row.finish_reason is None]
        if not going:
            return False
        with self._stats.phase("write"), Spent.measured() as writing:
            self._generator.write(going)
        self.scheduler.fit.record_step(writing + self._encoding, is_beside)
        self._stats.steps += len(going)
        return True

    def _verify(self, rows: Sequence[Row], plan: Plan, executor: ThreadPoolExecutor, is_blind: bool) -> None:
        sizes = [len(row.pending) for row in rows]
        queries = [guess.query for row in rows for guess in row.pending]
        if plan.asynchronous:
            answers, spent, writing = self._search_while_writing(rows, queries, executor)
            self.scheduler.fit.record_beside(len(queries), spent, writing)
        else:
            # Nobody will look at what else would be found where nothing is going to be guessed.
            k = 1 if is_blind and self.scheduler.is_hopeless(len(rows)) else self._config.prefetch
            with self._stats.phase("wait"):
                answers, spent = self._search(queries, k)
            self.scheduler.fit.record_alone(len(queries), spent)
        self._stats.seconds.search += spent.seconds
        self._settle(rows, sizes, answers, is_blind)
        self._count(plan, len(queries), max(sizes))

    def _search(self, queries: Sequence[Query], k: int) -> tuple[Answers, Spent]:
        """Answers and what they took. All that the verification's thread does."""
        with Spent.measured() as spent:
            answers = self._retriever.search(queries, k)
        return answers, spent

    def _search_while_writing(
        self, rows: Sequence[Row], queries: Sequence[Query], executor: ThreadPoolExecutor
    ) -> tuple[Answers, Spent, float]:
        """Answers, what they took, and for how long the next steps were written beside it."""
        started = time.perf_counter()
        future = executor.submit(self._search, queries, self._config.prefetch)
        ahead = 1
        goes_on = self._write(rows, is_beside=True)
        while goes_on and ahead < self._config.max_ahead and not future.done():
            self._guess(rows)
            goes_on = self._write(rows, is_beside=True)
            ahead += 1
        writing = time.perf_counter() - started
        with self._stats.phase("wait"):
            answers, spent = future.result()
        return answers, spent, writing

    def _settle(self, rows: Sequence[Row], sizes: Sequence[int], answers: Answers, is_blind: bool) -> None:
        start, hits, misses = 0, 0, 0
        for row, size in zip(rows, sizes, strict=True):
            found = row.settle(answers[start : start + size])
            start += size
            hits, misses = hits + found.matched, misses + found.missed
            self._stats.retrievals += found.matched + found.missed
            self._stats.lost_tokens += found.lost_tokens
            self._stats.lost_steps += found.lost_steps
            self._stats.roll_backs += found.lost_steps > 0
        if not is_blind:
            self.scheduler.hit_rate.record(hits, misses)
            self._stats.guesses += hits + misses
            self._stats.hits += hits

    def _count(self, plan: Plan, num_queries: int, stride: int) -> None:
        stats, scheduler = self._stats, self.scheduler
        stats.calls += 1
        stats.queries += num_queries
        stats.asynchronous_calls += plan.asynchronous
        stats.strides.append(stride)
        stats.hit_rate = scheduler.hit_rate.value
        if scheduler.fit.is_ready:
            latencies = scheduler.fit.latencies()
            stats.step, stats.base, stats.per_query = latencies.step, latencies.base, latencies.per_query
