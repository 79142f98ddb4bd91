"""The other end of a worker: starts it, gives it turns, and ends it.

Knows pipes and lines of JSON. Does not know what the worker loads. A process each, because runtimes that share one
also share its OpenMP pools, and then slow each other down.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any

from apps.bench.timing import Output, Run, RunFailed
from apps.bench.worker import Load
from apps.gec.workers.process import environment

_COMMAND = (sys.executable, "-m", "apps.bench.worker")
_PATIENCE = 10.0  # seconds that a worker has to end by itself


class WorkerProcess(AbstractContextManager["WorkerProcess"]):
    """One contestant at one setting. It loads while the caller goes on; `wait` returns when it is ready."""

    def __init__(self, load: Load, command: Sequence[str] = _COMMAND) -> None:
        self._errors = TemporaryFile()  # noqa: SIM115  (closed by `close`)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(load.threads),
            encoding="utf-8",
        )
        self._send(asdict(load))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait(self) -> None:
        """Return when the worker has loaded. Raises RunFailed, with its last words, if it could not."""
        self._receive()

    def __call__(self, texts: Sequence[str], rows: int) -> Run:
        """One turn. Raises RunFailed if the texts could not be corrected, or the worker is gone."""
        self._send({"texts": list(texts), "rows": rows})
        reply = self._receive()
        if "error" in reply:
            raise RunFailed(reply["error"])
        outputs = [Output(tuple(ids), text, passes) for ids, text, passes in reply["outputs"]]
        return Run(reply["seconds"], outputs, reply["phases"])

    def close(self) -> None:
        """End the worker and take its memory back."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it is gone, with a line unread
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it is gone; `_receive` says why
            print(json.dumps(message), file=self._process.stdin, flush=True)

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RunFailed(self._last_words())
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _last_words(self) -> str:
        """The error that ended the worker, from its traceback; its exit code where there is none."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").splitlines()
        starts = [at for at, line in enumerate(lines) if line.startswith("Traceback")]
        told = (
            [line for line in lines[starts[-1] + 1 :] if line.strip() and not line[0].isspace()]
            if starts
            else []
        )
        return told[0] if told else f"its process ended with code {code}"
