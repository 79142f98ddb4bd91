"""The one loop: propose, pack, forward, sample, walk, commit, observe.

Knows rows, drafts and a target. Does not know what a text is about. One engine serves many threads: whoever
waits for its row drives the steps for all rows.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from core import drafters, loading
from core.budget import ASSUMED_DOUBLING, Budget, MeasuredBudget
from core.choosing import Chooser
from core.drafters.base import Drafter
from core.packing import PackedRow
from core.rows import new_row
from core.slots import Slots
from core.targets.base import Target
from core.text import TextStream
from core.timing import PhaseClock
from core.types import Completion, DecodeStats, DraftTree, Request, SamplingParams, Sequence, Verdict

#: Finished rows that stay in the cache where nothing else is asked for: some conversations, some documents.
PREFIX_ROWS = 4


class Engine:
    """Decodes requests, in batches that rows join and leave at any step.

    `drafter` is a name from `core.drafters.names()`, made with `drafter_options`, or a `Drafter`; `verification` a
    name from `core.verification.RULES`. `exact=True`, for the rule `exact` alone, looks again, with a pass of one
    token of that row alone, at tokens whose two best scores lie closer than `near_tie_gap`. `max_rows` bounds the
    running batch.

    `prefix_rows` finished rows stay in the cache, the least recently used leaving first, each with the memory of
    a running one: a prompt that begins like one of them, or like a running one, takes that much over and reads
    only the rest. By default 4 for decoder-only models, which take over any common beginning, and 0 for
    encoder-decoder models, where only an equal source can be (its encoder output). 0 switches it off.
    """

    def __init__(
        self,
        target: Target,
        tokenizer: Any,
        drafter: str | Drafter = "copy",
        *,
        drafter_options: Mapping[str, Any] | None = None,
        verification: str = "exact",
        exact: bool = False,
        near_tie_gap: float | None = None,
        max_rows: int = 32,
        prefix_rows: int | None = None,
        budget: Budget | None = None,
    ) -> None:
        if max_rows < 1:
            raise ValueError(f"max_rows={max_rows} must be at least 1")
        if prefix_rows is None:
            prefix_rows = 0 if target.is_encoder_decoder else PREFIX_ROWS
        if prefix_rows < 0:
            raise ValueError(f"prefix_rows={prefix_rows} must be 0 (nothing is taken over) or greater")
        self.target = target
        self.target.bound(max_rows, num_parked=prefix_rows)
        self.tokenizer = tokenizer
        if isinstance(drafter, str):
            drafter = drafters.create(drafter, target, **(drafter_options or {}))
        elif drafter_options:
            raise ValueError(f"{drafter_options=} belong to a drafter's name, but a drafter was given")
        self.drafter = drafter
        self.drafter.read_vocabulary(tokenizer)
        self.drafter.read_verification(verification)
        self.stats = DecodeStats()
        self.chooser = Chooser(target, verification, exact=exact, near_tie_gap=near_tie_gap, stats=self.stats)
        doubling = ASSUMED_DOUBLING[target.device.type]
        if budget is None:
            budget = MeasuredBudget(target.query_bucket, target.flat_bucket, doubling=doubling)
        self.budget = budget
        self.max_rows = max_rows
        self._slots = Slots(target, prefix_rows)
        self._waiting: deque[Sequence] = deque()
        self._streams: dict[int, TextStream] = {}
        self._ids = itertools.count()
        self._lock = threading.RLock()
        self._is_busy = False
        self._leaving: list[Sequence] = []
        self._clock = PhaseClock(self.stats.seconds)
        # On the CPU the wall clock would tell the budget what else runs on the machine.
        self._work_time = time.thread_time if target.device.type == "cpu" else time.perf_counter

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        drafter: str | Drafter = "copy",
        device: str = "auto",
        dtype: str = "auto",
        *,
        cuda_graphs: bool = True,
        **options: Any,
    ) -> Engine:
        """An engine over a local folder or hub id; further options go to the constructor.

        Raises ValueError for an unknown path, device, dtype or drafter, and UnsupportedModelError for a model
        that cannot be run exactly.
        """
        target, tokenizer = loading.load(name, device, dtype, cuda_graphs=cuda_graphs)
        return cls(target, tokenizer, drafter, **options)

    @property
    def running(self) -> list[Sequence]:
        """The rows of the batch, in the order of their slots."""
        return self._slots.running

    # -- what callers use -----------------------------------------------------------------------------

    def generate(self, requests: Seq[Request], params: SamplingParams | None = None) -> list[Completion]:
        """Decode all requests; completions in the order of the input. `params` is for requests without any."""
        rows = [self._prepare(request, params) for request in requests]
        # Neighbours of like length share padding best.
        for row in sorted(rows, key=lambda row: -len(row.prompt_ids)):
            self._enqueue(row)
        try:
            while any(row.finish_reason is None for row in rows):
                self.step()
            return [self.completion(row) for row in rows]
        finally:
            for row in rows:
                self._forget(row)

    def stream(self, request: Request, params: SamplingParams | None = None) -> Iterator[str]:
        """Pieces of the text as they are written: whole characters, never the beginning of a stop string.

        Closing the iterator frees the row.
        """
        return self._pieces(self._prepare(request, params))

    def add(self, request: Request, params: SamplingParams | None = None) -> Sequence:
        """Queue a request; it joins the batch at a later `step`."""
        row = self._prepare(request, params)
        self._enqueue(row)
        return row

    def cancel(self, row: Sequence) -> None:
        """Take a row out, wherever it is; nothing happens if it is finished."""
        with self._lock:
            if row.finish_reason is None:
                self._forget(row)

    def take(self, row: Sequence) -> str:
        """The text of a row queued with `add` that is new since the last call and safe to show; '' once cancelled.

        A turn that is under way is waited for, so that what a finished row holds is final.
        """
        with self._lock:
            stream = self._streams.get(row.id)
            return "" if stream is None else stream.take(row.finish_reason is not None)

    def completion(self, row: Sequence) -> Completion:
        """The result of a finished row that was queued with `add`; may be asked for once.

        Raises ValueError for a row that was cancelled.
        """
        assert row.finish_reason is not None, "the row is still running"
        stream = self._streams.pop(row.id, None)
        if stream is None:
            raise ValueError(f"row {row.id} was cancelled, or its completion was taken before")
        return Completion(stream.text, row.output_ids, row.finish_reason, row.stats)

    @torch.inference_mode()
    def step(self) -> None:
        """One turn of the loop for every running row; waiting rows join first."""
        with self._alone():
            self._admit()
            if self.running:
                self._turn(self.running)

    # -- one turn -------------------------------------------------------------------------------------

    def _turn(self, rows: list[Sequence]) -> None:
        clock, started = self._clock, self._work_time()
        with clock.phase("propose"):
            trees = self._propose(rows)
        proposed = self._work_time()
        with clock.phase("pack"):
            packed = [
                PackedRow(row.cache_len, row.tokens[-1:], tree) for row, tree in zip(rows, trees, strict=True)
            ]
            batch = self.target.pack(packed)
        with clock.phase("forward"):
            output = self.target.forward(batch, need_hidden=self._needs_hidden(rows))
        with clock.phase("sample"):
            verdicts = self.chooser.choose(rows, trees, output)
        with clock.phase("commit"):
            for slot, (row, verdict) in enumerate(zip(rows, verdicts, strict=True)):
                self.target.commit(slot, row.cache_len + 1, verdict.path)
            verdicts = self.chooser.confirm(rows, trees, verdicts)
            for row, tree, verdict in zip(rows, trees, verdicts, strict=True):
                self._accept(row, tree, verdict)
        self.stats.target_calls += 1
        # The loop's own time counts too: it is saved with every pass that is saved.
        passed = self._work_time()
        with clock.phase("observe"):
            self.drafter.observe(rows, trees, verdicts, output)
            drafting = self._work_time() - passed + proposed - started
            self._remove([row for row in rows if row.finish_reason is not None])
        if not output.is_cold:
            num_tokens = sum(1 + len(verdict.path) for verdict in verdicts)
            self.budget.record(len(trees), len(output.logits), num_tokens, passed - proposed, drafting)

    def _propose(self, rows: list[Sequence]) -> list[DraftTree]:
        limit = self.budget.limit(len(rows))
        # The bonus token takes the last place that is left, so a tree need not be deeper than that.
        trees = self.drafter.propose(rows, [min(limit, row.remaining - 1) for row in rows])
        trees = [tree.limit_depth(row.remaining - 1) for row, tree in zip(rows, trees, strict=True)]
        return [tree.prefix(n) for tree, n in zip(trees, self.budget.choose(trees), strict=True)]

    def _needs_hidden(self, rows: list[Sequence]) -> bool:
        wanted = (row.request.transform for row in rows if row.request.transform is not None)
        return self.drafter.needs_hidden or any(transform.needs_hidden for transform in wanted)

    def _accept(self, row: Sequence, tree: DraftTree, verdict: Verdict) -> None:
        """Append what stands, up to an end token, a stop string or the length limit."""
        written = [tree.tokens[node] for node in verdict.path]
        written.append(verdict.bonus)
        stream = self._streams[row.id]
        kept = 0
        for token in written:
            row.tokens.append(token)
            kept += 1
            if token in self.target.eos_token_ids or stream.push(token):
                row.finish_reason = "stop"
            elif row.remaining == 0:
                row.finish_reason = "length"
            if row.finish_reason is not None:
                break
        row.cache_len += kept
        assert row.cache_len == len(row.tokens) - 1, "the cache and the row's tokens went apart"
        row.stats.target_calls += 1
        for stats in (row.stats, self.stats):
            stats.drafted += len(tree)
            stats.accepted += min(len(verdict.path), kept)
            stats.emitted += kept

    # -- rows come and go -----------------------------------------------------------------------------

    def _prepare(self, request: Request, params: SamplingParams | None) -> Sequence:
        if not isinstance(request, Request):
            raise ValueError(f"{request!r:.80} is no Request; write Request(prompt), in a list for generate")
        chosen = request.params or params or SamplingParams()
        return new_row(next(self._ids), request, chosen, self.target, self.tokenizer)

    def _enqueue(self, row: Sequence) -> None:
        with self._lock:
            self._streams[row.id] = TextStream(self.tokenizer, row.params.stop)
            self._waiting.append(row)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep the rows where they are meanwhile, but for what happens inside.

        The garbage collector may close a lost stream at any moment on this very thread, which the lock lets in.
        """
        with self._lock:
            if self._is_busy:
                yield
                return
            self._is_busy = True
            try:
                yield
            finally:
                try:
                    while self._leaving:
                        self._take_out(self._leaving.pop())
                finally:
                    self._is_busy = False

    def _forget(self, row: Sequence) -> None:
        """Take a row out, and its text with it: now, or at the end of the step that is under way."""
        with self._alone():
            self._leaving.append(row)

    @torch.inference_mode()
    def _take_out(self, row: Sequence) -> None:
        self._streams.pop(row.id, None)
        if row.finish_reason is not None:
            return
        row.finish_reason = "cancelled"
        if row in self.running:
            self._remove([row])
        else:
            self._waiting.remove(row)

    @torch.inference_mode()
    def _admit(self) -> None:
        """Let waiting rows in, several at a time where many wait: reading prompts together is cheaper."""
        free = self.max_rows - len(self.running)
        if not self._waiting or free < min(len(self._waiting), max(1, self.max_rows // 4)):
            return
        with self._clock.phase("join"):
            self._slots.join(list(itertools.islice(self._waiting, free)), self._begin)

    def _begin(self, row: Sequence) -> None:
        self.drafter.begin(row)
        # Only now: a row whose prompt could not be read is still waiting, and can be cancelled.
        self._waiting.remove(row)
        self.stats.prompt_tokens += row.stats.prompt_tokens
        self.stats.reused_tokens += row.stats.reused_tokens

    def _remove(self, rows: list[Sequence]) -> None:
        for row in rows:
            self._slots.leave(row)
            self.drafter.end(row)

    def _pieces(self, row: Sequence) -> Iterator[str]:
        # The row queues at the first `next`: an iterator that is never started holds nothing.
        self._enqueue(row)
        stream = self._streams[row.id]
        try:
            finished = False
            while not finished:
                # Another thread's step may write to this row too: look only while none is under way.
                with self._lock:
                    if row.finish_reason is None:
                        self.step()
                    finished = row.finish_reason is not None
                    piece = stream.take(finished)
                if piece:
                    yield piece
        finally:
            self._forget(row)
