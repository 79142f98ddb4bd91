"""The parent's end of a worker: starts it, asks it, hears its answer or how it died, and ends it.

Knows pipes and signals. Does not know what the worker does, nor which worker gets what.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .wire import LOAD_ERRORS, line, parsed

_ROOT = Path(__file__).resolve().parents[3]
_COMMAND = (sys.executable, "-m", "apps.gec.workers.child")
_PATIENCE = 5.0  # seconds that a worker has to end by itself


class WorkerDied(RuntimeError):
    """A worker process ended while it was needed; the message says how."""


class WorkerError(RuntimeError):
    """An error inside a worker. `index` is the text, of those given to the pool, that causes it; None where no text
    does so alone."""

    def __init__(self, message: str, index: int | None) -> None:
        super().__init__(message)
        self.index = index


def environment(threads: int) -> dict[str, str]:
    """A worker's variables: its own threads, and idle ones that sleep instead of spinning.

    A wait policy that the user has set stays.
    """
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }
    return {"OMP_WAIT_POLICY": "PASSIVE"} | os.environ | own


class Worker:
    """One worker process. It loads while the caller goes on: `receive` its first answer, `about` the loaded task.

    `unit` holds the indices of the texts that it is at work on; empty while it is idle or loads.
    """

    def __init__(
        self, task: str, options: Mapping[str, Any], threads: int, command: Sequence[str] = _COMMAND
    ) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(threads),
            process_group=0,  # Ctrl-C on the terminal is the parent's to handle
        )
        self.about: dict[str, Any] | None = None
        self.unit: list[int] = []
        self.asked_at = time.monotonic()
        self._send({"task": task, "options": dict(options)})

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def is_idle(self) -> bool:
        """Whether it can be asked."""
        return self.about is not None and not self.unit

    def fileno(self) -> int:
        """What becomes readable when an answer is there, or the worker is gone."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def ask(self, method: str, *arguments: Any) -> None:
        """Call a method of the task; `receive` has its answer."""
        self.asked_at = time.monotonic()
        self._send({"method": method, "arguments": arguments})

    def receive(self) -> tuple[Any, float]:
        """Wait for the answer; the result, and the seconds since it was asked for.

        Raises WorkerDied, WorkerError (its index counts in `unit`), or what loading raised.
        """
        assert self._process.stdout is not None
        received = self._process.stdout.readline()
        if not received.endswith(b"\n"):
            raise WorkerDied(self._epitaph())
        message = parsed(received)
        if "kind" in message:
            raise LOAD_ERRORS[message["kind"]](message["error"])
        if "error" in message:
            raise WorkerError(message["error"], message["index"])
        return message["result"], time.monotonic() - self.asked_at

    def hang_up(self) -> None:
        """Close the worker's input, upon which it ends."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it is gone, with a line unread
            self._process.stdin.close()

    def end(self) -> None:
        """See the worker's end; nothing of it is left afterwards."""
        assert self._process.stdout is not None
        self.hang_up()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it is gone; `receive` says how
            self._process.stdin.write(line(message))
            self._process.stdin.flush()

    def _epitaph(self) -> str:
        """How the process ended."""
        code = self._process.wait()
        if code >= 0:
            return f"worker process {self.pid} ended by itself with code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        hint = "; where nobody did that, memory ran out: fewer workers need less" if -code == 9 else ""
        return f"worker process {self.pid} was killed by {name}{hint}"
