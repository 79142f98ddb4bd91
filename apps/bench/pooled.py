"""This project's entry with several worker processes: the pool of `apps.gec.CorrectorPool` over bare engines.

Knows how tokens and passes come back through the pool. Loads no model itself: the workers do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apps.bench.timing import Output
from apps.gec.workers import ProcessPool
from apps.gec.workers.machine import resident_memory

_CHARS_PER_ROW = 100  # as in `CorrectorPool`


class Decoding:
    """A worker's task: an engine that corrects texts (see `apps.gec.workers.child.Task`)."""

    def __init__(self, model: str, max_new_tokens: int, max_rows: int, **options: Any) -> None:
        from apps.bench.ours import EngineRunner

        self._runner = EngineRunner(Path(model), max_new_tokens, max_rows, **options)
        self._rows = max_rows

    def about(self) -> dict[str, Any]:
        """As every task."""
        return {"device": "cpu", "memory": resident_memory()}

    def use_threads(self, count: int) -> None:
        """As every task."""
        import torch

        torch.set_num_threads(count)

    def forget(self) -> None:
        """Empty the memory of edits."""
        self._runner.forget()

    def phase_seconds(self) -> dict[str, float]:
        """Seconds by phase of the loop so far."""
        return self._runner.phase_seconds()

    def correct(self, texts: list[str]) -> list[Any]:
        """Tokens, text and passes of each text."""
        outputs = self._runner.decode(texts, max(2, self._rows))
        return [(out.token_ids, out.text, out.passes) for out in outputs]


class PooledRunner:
    """`workers` engines with a thread each that share the texts of a batch. Raises ValueError for single texts."""

    def __init__(
        self, model: Path, max_new_tokens: int, max_rows: int, workers: int, threads: int, **options: Any
    ) -> None:
        loaded = {"model": str(model), "max_new_tokens": max_new_tokens, "max_rows": max_rows, **options}
        smallest = _CHARS_PER_ROW * max_rows
        self._pool = ProcessPool(
            "apps.bench.pooled:Decoding",
            loaded,
            workers,
            threads=threads,
            smallest=smallest,
            largest=8 * smallest,
            eager=True,
        )

    def __call__(self, texts: Sequence[str], rows: int) -> list[Output]:
        """Correct the texts, without having seen them before."""
        if rows == 1:
            raise ValueError("several workers share batches, not single sentences")
        self._pool.tell("forget")
        found: dict[int, Output] = {}
        for unit, values in self._pool.run(texts):
            for index, (ids, text, passes) in zip(unit, values, strict=True):
                found[index] = Output(tuple(ids), text, passes)
        return [found[index] for index in range(len(texts))]

    def phase_seconds(self) -> dict[str, float]:
        """Seconds by phase of the loop so far, of all workers together."""
        total: Counter[str] = Counter()
        for phases in self._pool.tell("phase_seconds"):
            total.update(phases)
        return dict(total)

    def close(self) -> None:
        """End the workers."""
        self._pool.close()
