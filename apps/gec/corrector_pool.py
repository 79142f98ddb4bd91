"""`CorrectorPool`: a `Corrector` in each of several processes, behind the same calls.

Knows texts and corrections. Does not know processes; `workers` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from threading import Lock
from time import perf_counter
from typing import Any, Literal

from .config import CorrectorConfig
from .refusals import Refusal
from .results import Correction, CorrectionStats
from .workers import ProcessPool
from .workers.correcting import TASK, unpacked

#: Texts that wait for each worker in `correct_many`: enough to sort by length, few enough for any memory.
TEXTS_PER_WORKER = 1024
_CHARS_PER_ROW = 100  # a usual sentence; a unit of work should fill the model's rows


class CorrectorPool:
    """Corrects texts in up to `workers` processes ("auto": one for each physical core as far as memory reaches, one
    where the model computes on a GPU).

    Further keyword names are those of `CorrectorConfig`; `threads` are those of each process (1 if not given). The
    corrections are those of a `Corrector` with the same settings: each text is corrected whole in one process. (In
    bf16 and int8 a text's rounding depends on its neighbours, so near-ties may fall differently, as from run to run.)

    The first process is started with the pool, which raises what `Corrector` would raise; the others follow once
    there is so much work that they pay. Use it as a context manager, or call `close`: no process is left then, nor
    when the program ends in any other way. `stats` counts everything corrected so far. Needs no `__main__` guard.
    """

    def __init__(self, workers: int | Literal["auto"] = "auto", **settings: Any) -> None:
        self.config = CorrectorConfig(**settings)
        # A path that leads nowhere is told before a process is started; a shorter path than the workers' own.
        config = replace(self.config, model=self.config.model_name, threads=None)
        smallest = _CHARS_PER_ROW * config.max_rows
        self._pool = ProcessPool(
            TASK,
            asdict(config),
            None if workers == "auto" else workers,
            threads=self.config.threads or 1,
            smallest=smallest,
            largest=8 * smallest,
        )
        self.stats = CorrectionStats()
        self._lock = Lock()

    def __enter__(self) -> CorrectorPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def num_workers(self) -> int:
        """The most processes that there will be."""
        return self._pool.limit

    @property
    def pids(self) -> list[int]:
        """The processes that there are now."""
        return self._pool.pids

    def close(self) -> None:
        """End the processes. Doing it twice does no harm."""
        self._pool.close()

    def correct(self, text: str) -> Correction:
        """Correct one text; it stays in one process."""
        return self.correct_batch([text])[0]

    def correct_batch(self, texts: Sequence[str]) -> list[Correction]:
        """Correct many texts; one correction per text, in order.

        Raises ValueError for a text that cannot be corrected, `workers.WorkerError` (with the text's index) for an
        error inside a process, and `workers.WorkerDied` for a process that is gone.
        """
        found: list[Correction | None] = [None] * len(texts)
        for unit, outcomes in self.correct_units(texts):
            for index, outcome in zip(unit, outcomes, strict=True):
                if isinstance(outcome, Refusal):
                    raise ValueError(outcome.reason)
                found[index] = outcome
        corrections = [correction for correction in found if correction is not None]
        assert len(corrections) == len(texts), "the pool gives every text back"
        return corrections

    def correct_many(self, texts: Iterable[str]) -> Iterator[Correction]:
        """Correct any number of texts; corrections in order. No more is read of `texts` than is being worked on."""
        waiting = iter(texts)
        while window := list(islice(waiting, TEXTS_PER_WORKER * self.num_workers)):
            yield from self.correct_batch(window)

    def correct_units(self, texts: Sequence[str]) -> Iterator[tuple[list[int], list[Correction | Refusal]]]:
        """The indices of some texts, and what became of each of them, as they are done.

        Exhaust or close the iterator before the next call: until then other callers wait.
        """
        with self._lock:
            began = perf_counter()
            for unit, values in self._pool.run(texts):
                outcomes = [unpacked(texts[index], value) for index, value in zip(unit, values, strict=True)]
                for outcome in outcomes:
                    if isinstance(outcome, Correction):
                        self.stats.add(outcome.stats)
                yield unit, outcomes
            self.stats.seconds += perf_counter() - began
