"""Part three: real passes whose outcome is dictated, so that random weights write texts worth copying into.

A recorded output is taken as what the target says: behind every token path it is the recorded token of that
position that gets a bonus no logit can beat. The engine, its drafters and its passes are those of every day.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import PreTrainedModel

from apps.bench.gpu.clock import Deadline, median_ms, synchronize
from apps.bench.gpu.models import SilentTokenizer
from apps.bench.gpu.passes import make_room
from core import Engine, Request, SamplingParams
from core.budget import MeasuredBudget
from core.packing import PackedRow, Pass
from core.targets.base import PassOutput
from core.targets.decoder_only import DecoderOnly
from core.targets.runners import power_of_two
from core.types import DraftTree

_BONUS = 1e4
#: Times that a measured pass is told to a primed budget: enough for it to be believed.
_PRIMED = 20


@dataclass(frozen=True)
class Variant:
    """A drafter, and whether its budget was told beforehand what passes cost."""

    drafter: str
    is_primed: bool = False

    @property
    def name(self) -> str:
        return f"{self.drafter}, primed" if self.is_primed else self.drafter


@dataclass(frozen=True)
class Text:
    """A prompt and what the target will have written for it."""

    prompt: list[int]
    output: list[int]


def make_text(vocab_size: int, num_prompt: int, num_output: int, seed: int) -> Text:
    """An output of which about two thirds is copied from the prompt in stretches, the rest new."""
    rng = random.Random(seed)
    prompt = [rng.randrange(8, vocab_size) for _ in range(num_prompt)]
    output: list[int] = []
    while len(output) < num_output:
        stretch = rng.randint(6, 24)
        start = rng.randrange(num_prompt - stretch)
        output += prompt[start : start + stretch]
        output += [rng.randrange(8, vocab_size) for _ in range(rng.randint(2, 12))]
    return Text(prompt, output[:num_output])


class ReplayTarget(DecoderOnly):
    """A target that says what was recorded for its prompts; an ordinary one until `record` is called."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__(model)
        self._outputs: dict[tuple[int, ...], list[int]] = {}
        self._recorded: torch.Tensor | None = None
        #: Passes by number of queries.
        self.widths: Counter[int] = Counter()

    def record(self, texts: Seq[Text], num_slots: int) -> None:
        """The texts that the next requests will be about."""
        self._outputs = {tuple(text.prompt): text.output for text in texts}
        longest = max(len(text.prompt) + len(text.output) for text in texts)
        self._recorded = torch.zeros((num_slots, longest), dtype=torch.int64, device=self.device)

    def join(self, first_slot: int, prompts: Seq[Seq[int]]) -> list[int]:
        if self._recorded is not None:
            for slot, prompt in enumerate(prompts, first_slot):
                whole = [*prompt, *self._outputs[tuple(prompt)]]
                self._recorded[slot, : len(whole)] = torch.tensor(whole, device=self.device)
        return super().join(first_slot, prompts)

    def leave(self, slot: int, last_slot: int, last_length: int) -> None:
        if self._recorded is not None:
            self._recorded[slot] = self._recorded[last_slot].clone()
        super().leave(slot, last_slot, last_length)

    def forward(self, batch: Pass, *, need_hidden: bool = False) -> PassOutput:
        """What a node's token is followed by depends on its position alone, so on the path to it alone."""
        output = super().forward(batch, need_hidden=need_hidden)
        if self._recorded is None:
            return output
        self.widths[batch.tokens.shape[1]] += 1
        following = (batch.positions.to(self.device) + 1).clamp_(max=self._recorded.shape[1] - 1)
        said = self._recorded[batch.rows].gather(1, following)
        output.logits.scatter_(1, said.view(-1, 1), _BONUS)
        return output


@dataclass
class Tally:
    """What one variant did at one batch size, round by round."""

    tokens_per_second: list[float] = field(default_factory=list)
    with_prompt: list[float] = field(default_factory=list)
    tokens: int = 0
    passes: int = 0
    nodes: int = 0
    identical: int = 0
    rows: int = 0
    widths: Counter[int] = field(default_factory=Counter)


class Replay:
    """Runs batches of recorded texts through one target with several drafters."""

    def __init__(
        self, target: ReplayTarget, variants: Seq[Variant], num_prompt: int, num_output: int
    ) -> None:
        self._target = target
        self._num_prompt = num_prompt
        self._num_output = num_output
        self._params = SamplingParams(max_new_tokens=num_output)
        self._variants = variants
        self._seconds: dict[tuple[int, int], float] = {}

    @torch.inference_mode()
    def prepare(self, max_rows: int, deadline: Deadline) -> dict[str, Any]:
        """Capture every shape that a batch may come to and time it, as a server would before it opens."""
        self._target.record([make_text(64, self._num_prompt, self._num_output, 0)], max_rows)
        start = time.perf_counter()
        rows = max_rows
        while rows >= 1:
            for queries in (1, 2, 4, 8, 16, 32, 64, 128):
                if not deadline.is_over and rows * queries <= 4096:
                    chain = DraftTree([7] * (queries - 1), list(range(-1, queries - 2)))
                    packed = self._target.pack([PackedRow(self._num_prompt + 1, [5], chain)] * rows)
                    milliseconds = median_ms(
                        lambda packed=packed: self._target.forward(packed),  # type: ignore[misc]
                        self._target.device,
                        warm_up=2,
                        rounds=3,
                    )
                    self._seconds[rows, queries] = milliseconds / 1000
            rows //= 2
        return {"shapes": len(self._seconds), "seconds": round(time.perf_counter() - start, 2)}

    def compare(self, num_rows: int, num_rounds: int, deadline: Deadline) -> list[dict[str, Any]]:
        """All variants at one batch size, taking turns; the first round warms up and is not counted."""
        variants = list(self._variants)
        engines = {variant: self._engine(variant, num_rows) for variant in variants}
        tallies = {variant: Tally() for variant in variants}
        for turn in range(num_rounds + 1):
            if deadline.is_over and turn > 1:
                break
            texts = [self._text(num_rows, turn, i) for i in range(num_rows)]
            first = turn % len(variants)
            for variant in variants[first:] + variants[:first]:
                self._target.record(texts, num_rows)
                self._run(engines[variant], texts, tallies[variant] if turn else Tally())
        plain = statistics.median(tallies[Variant("none")].tokens_per_second)
        return [_report(variant, tally, num_rows, plain) for variant, tally in tallies.items()]

    def _engine(self, variant: Variant, num_rows: int) -> Engine:
        # Every row reads its prompt, as the recorded texts are bound to the slots that read them.
        engine = Engine(self._target, SilentTokenizer(), variant.drafter, max_rows=num_rows, prefix_rows=0)
        if variant.is_primed:
            assert isinstance(engine.budget, MeasuredBudget)
            for (rows, queries), seconds in self._seconds.items():
                for _ in range(_PRIMED):
                    engine.budget.times.record(rows, rows * queries, seconds)
        return engine

    def _text(self, num_rows: int, turn: int, i: int) -> Text:
        seed = hash((num_rows, turn, i))
        return make_text(self._target.vocab_size, self._num_prompt, self._num_output, seed)

    def _run(self, engine: Engine, texts: Seq[Text], tally: Tally) -> None:
        device = self._target.device
        synchronize(device)
        start = time.perf_counter()
        rows = [engine.add(Request(text.prompt, params=self._params)) for text in texts]
        # The first step reads the prompts; the pace is taken from then on.
        engine.step()
        synchronize(device)
        first = time.perf_counter()
        already = sum(len(row.output_ids) for row in rows)
        self._target.widths.clear()
        while any(row.finish_reason is None for row in rows):
            engine.step()
        synchronize(device)
        end = time.perf_counter()
        tally.widths += self._target.widths
        written = sum(len(row.output_ids) for row in rows)
        tally.tokens_per_second.append((written - already) / (end - first))
        tally.with_prompt.append(written / (end - start))
        tally.tokens += written
        tally.rows += len(rows)
        for row, text in zip(rows, texts, strict=True):
            tally.passes += row.stats.target_calls
            tally.nodes += row.stats.drafted
            tally.identical += row.output_ids == text.output


def _report(variant: Variant, tally: Tally, num_rows: int, plain: float) -> dict[str, Any]:
    pace = statistics.median(tally.tokens_per_second)
    return {
        "rows": num_rows,
        "drafter": variant.name,
        "rounds": len(tally.tokens_per_second),
        "tokens_per_second": round(pace, 1),
        "ratio": round(pace / plain, 3),
        "tokens_per_second_with_prompt": round(statistics.median(tally.with_prompt), 1),
        "tokens_per_pass": round(tally.tokens / tally.passes, 3),
        "nodes_per_pass": round(tally.nodes / tally.passes, 2),
        "passes_without_draft": round(tally.widths[1] / max(tally.widths.total(), 1), 3),
        "passes_by_queries": dict(sorted(tally.widths.items())),
        "identical": round(tally.identical / tally.rows, 4),
    }


def replay_batches(
    target: ReplayTarget,
    sizes: Seq[int],
    variants: Seq[Variant],
    lengths: tuple[int, int],
    deadline: Deadline,
    rounds: int,
) -> dict[str, Any]:
    """Every batch size that fits in memory and time; the largest decides the cache, which then stays."""
    sizes, skipped = list(sizes), []
    while sizes and not make_room(target, max(sizes), sum(lengths) + 128):
        skipped.append(f"replay of {max(sizes)} rows (no memory)")
        sizes.remove(max(sizes))
    if not sizes:
        return {"cells": [], "skipped": skipped}
    replay = Replay(target, variants, *lengths)
    prepared = replay.prepare(power_of_two(max(sizes)), deadline)
    cells: list[dict[str, Any]] = []
    for num_rows in sizes:
        if deadline.is_over:
            skipped.append(f"replay of {num_rows} rows (no time)")
            continue
        try:
            cells += replay.compare(num_rows, rounds, deadline)
        except torch.OutOfMemoryError:
            skipped.append(f"replay of {num_rows} rows (out of memory)")
    return {"prepared": prepared, "cells": cells, "skipped": skipped}
