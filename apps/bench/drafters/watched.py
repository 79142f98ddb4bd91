"""A drafter that is looked at while it warms up, when nobody takes the time: its memory, its first trees.

Knows drafters and passes. Does not know times.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any, NamedTuple

import torch

from apps.bench.drafters.memory import held_bytes
from core.drafters.base import Drafter
from core.targets.base import PassOutput
from core.types import DraftTree, SamplingParams, Sequence, Verdict


class FirstPass(NamedTuple):
    """A row's first pass that verified a tree: logits [1+N, V] of the pending token and the nodes."""

    logits: torch.Tensor
    tree: DraftTree
    params: SamplingParams


class Watched(Drafter):
    """Passes everything on to `inner`. `besides` is what does not count as its memory.

    `first_passes` holds those of at most `most` rows; `peak_bytes` is the most that the drafter held when the last row
    of a batch left.
    """

    def __init__(self, inner: Drafter, besides: Seq[Any], most: int) -> None:
        self.inner = inner
        self.needs_hidden, self.needs_logits = inner.needs_hidden, inner.needs_logits
        self.first_passes: list[FirstPass] = []
        self.peak_bytes = 0
        self._besides, self._most = besides, most
        self._num_rows = 0
        self._seen: set[int] = set()

    def read_vocabulary(self, tokenizer: Any) -> None:
        self.inner.read_vocabulary(tokenizer)

    def read_verification(self, rule: str) -> None:
        self.inner.read_verification(rule)

    def begin(self, row: Sequence) -> None:
        self._num_rows += 1
        self.inner.begin(row)

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        return self.inner.propose(rows, max_nodes)

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        for b, (row, tree) in enumerate(zip(rows, trees, strict=True)):
            if len(tree) and row.id not in self._seen and len(self.first_passes) < self._most:
                self._seen.add(row.id)
                logits = output.row_logits(b, 1 + len(tree)).float().cpu().clone()
                self.first_passes.append(FirstPass(logits, tree, row.params))
        self.inner.observe(rows, trees, verdicts, output)

    def end(self, row: Sequence) -> None:
        self._num_rows -= 1
        if not self._num_rows:
            # With the last row's state in it, which `end` drops.
            self.peak_bytes = max(self.peak_bytes, held_bytes(self.inner, self._besides))
        self.inner.end(row)
