"""Several worker processes behind one call: texts in, values out as they are done.

Knows how many workers pay, what each is at work on, and how they end. Does not know what a worker does with a text.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import wait
from typing import Any

from .deck import Deck
from .machine import available_memory, physical_cores
from .process import Worker, WorkerDied, WorkerError

#: Memory that stays free for others, and what a worker may grow by after it has loaded.
_RESERVE = 512 << 20
_GROWTH = 1.25


class ProcessPool:
    """Workers of one task, each a process with its own copy of what the task loads.

    `task` is "module:factory", called in each worker with `options`, which JSON must be able to hold (see
    `child.Task`). `workers` is the most there are; None: one for each physical core as far as memory reaches, a single
    one where the task computes on a GPU. `smallest` and `largest` bound the units that are dealt out, in characters.

    The first worker is started, and waited for, at once; raises what loading raises. The others follow when they
    pay: a small job never waits for a second process. `eager` starts all of them at once. One caller at a time.
    """

    def __init__(
        self,
        task: str,
        options: Mapping[str, Any],
        workers: int | None = None,
        *,
        threads: int = 1,
        smallest: int = 3_200,
        largest: int = 25_600,
        eager: bool = False,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers={workers} must be at least 1, or 'auto'")
        self._task, self._options, self._threads = task, options, threads
        self._smallest, self._largest = smallest, largest
        self._workers: list[Worker] = []
        # Runs at close, when the pool is forgotten, and when the program ends, whichever comes first.
        self._finish = weakref.finalize(self, _end_all, self._workers)
        self._seconds_done = 0.0  # of all workers together
        self._chars_done = 0
        began = time.monotonic()
        try:
            self._start()
            self._welcome(self._workers[0])
            self._start_seconds = time.monotonic() - began
            self.limit = self._affordable() if workers is None else workers
            if workers is None and self.limit == 1:
                self.tell("use_threads", physical_cores())
            if eager:
                self._start_up_to(self.limit)
                self._welcome_all()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """The processes that there are, loading ones included."""
        return [worker.pid for worker in self._workers]

    def close(self) -> None:
        """End all workers, whatever they are doing. Doing it twice does no harm."""
        self._finish()

    def run(self, texts: Sequence[str]) -> Iterator[tuple[list[int], list[Any]]]:
        """What the task makes of the texts: indices and values, a unit at a time, as they are done.

        Raises WorkerDied for a process that is gone, and WorkerError for an error inside one; then, and when the
        iterator is closed early, whoever was at work is ended, and the next call starts anew.
        """
        self._check_open()
        assert not any(worker.unit for worker in self._workers), "one caller at a time"
        deck = Deck(texts, self._smallest, self._largest)
        try:
            while self._deal(deck, texts):
                for worker in self._answering():
                    if worker.about is None:
                        self._welcome(worker)
                    else:
                        yield self._collect(worker, texts)
        finally:
            self._dismiss([worker for worker in self._workers if worker.unit])

    def tell(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of the task in every worker that there is; wait for all, and return what each returned."""
        self._check_open()
        self._welcome_all()
        for worker in self._workers:
            worker.ask(method, *arguments)
        return [worker.receive()[0] for worker in self._workers]

    # -- one turn -------------------------------------------------------------------------------------

    def _deal(self, deck: Deck, texts: Sequence[str]) -> bool:
        """Give everyone who is idle a unit; whether there is anything to wait for."""
        self._start_up_to(self._worthwhile(deck.chars_left))
        for worker in self._workers:
            # The first unit of all is small: until it is back, nobody knows whether more workers pay.
            if worker.is_idle and (unit := deck.deal(self.limit, is_trial=not self._chars_done)):
                worker.unit = unit
                worker.ask("correct", [texts[index] for index in unit])
        return deck.chars_left > 0 or any(worker.unit for worker in self._workers)

    def _answering(self) -> list[Worker]:
        """Those who have something to say; waits until there is one."""
        by_file = {worker.fileno(): worker for worker in self._workers if not worker.is_idle}
        readable = wait(list(by_file))
        return [worker for file, worker in by_file.items() if file in readable]

    def _collect(self, worker: Worker, texts: Sequence[str]) -> tuple[list[int], list[Any]]:
        unit = worker.unit
        try:
            values, seconds = worker.receive()
        except WorkerError as error:
            place = None if error.index is None else unit[error.index]
            raise WorkerError(f"in a worker: {error}", place) from None
        except WorkerDied as died:
            raise WorkerDied(f"{died} (it was at work on {len(unit):,} texts)") from None
        assert len(values) == len(unit), "a task gives one value for each text"
        worker.unit = []
        self._seconds_done += seconds
        self._chars_done += sum(1 + len(texts[index]) for index in unit)
        return unit, values

    def _check_open(self) -> None:
        if not self._finish.alive:
            raise RuntimeError("the pool is closed, its processes are gone; make a new one")

    # -- workers come and go --------------------------------------------------------------------------

    def _worthwhile(self, chars_left: int) -> int:
        """How many workers pay: as many as the work, done and known to come, is times as long as a start.

        Where that is two, a second worker would not have been too early from the beginning; nothing is lost by
        having waited for it but what is measured meanwhile (the ski rental argument: at most twice the best).
        """
        if not self._workers:
            return 1
        if not self._chars_done:
            return len(self._workers)
        known = self._seconds_done * (1 + chars_left / self._chars_done)
        return min(self.limit, int(known / self._start_seconds))

    def _start_up_to(self, count: int) -> None:
        while len(self._workers) < count:
            self._start()

    def _start(self) -> None:
        self._workers.append(Worker(self._task, self._options, self._threads))

    def _welcome(self, worker: Worker) -> None:
        """Take note of a worker that has loaded. Raises what loading raised."""
        try:
            worker.about, _ = worker.receive()
        except BaseException:
            self._dismiss([worker])
            raise

    def _welcome_all(self) -> None:
        for worker in list(self._workers):
            if worker.about is None:
                self._welcome(worker)

    def _dismiss(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            self._workers.remove(worker)
        _end_all(list(workers))

    def _affordable(self) -> int:
        """How many workers this machine has cores and memory for, judged by the first one."""
        about = self._workers[0].about
        assert about is not None
        if about["device"] != "cpu":
            return 1
        room = available_memory() - _RESERVE
        more = int(room / (_GROWTH * about["memory"]))
        return max(1, min(physical_cores(), 1 + more))


def _end_all(workers: list[Worker]) -> None:
    """End the workers, all at the same time."""
    for worker in workers:
        worker.hang_up()
    while workers:
        workers.pop().end()
