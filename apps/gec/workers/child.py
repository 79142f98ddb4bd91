"""A worker: `python -m apps.gec.workers.child`, started by `process.Worker`.

The first line of standard input says what to load: `{"task": "module:factory", "options": {...}}`; every further one
is a call of the task's methods: `{"method": ..., "arguments": [...]}`. Each is answered with one line: a `result`, or
an `error`. When its input ends (the parent closed it, or is no more), the worker ends at once, whatever it is doing:
it holds nothing that anybody could miss.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol

from .wire import LOAD_ERRORS, line, parsed


class Task(Protocol):
    """What a worker does. Other methods may be called by name (`ProcessPool.tell`)."""

    def about(self) -> dict[str, Any]:
        """What the parent should know: `device` ("cpu", "cuda") and `memory` (bytes) of this process."""
        ...

    def use_threads(self, count: int) -> None:
        """Compute with so many threads from now on."""
        ...

    def correct(self, texts: list[str]) -> list[Any]:
        """One value that JSON can hold for each text."""
        ...


def load(asked: dict[str, Any]) -> Task:
    """The task that the first line names."""
    module, _, factory = asked["task"].partition(":")
    task: Task = getattr(import_module(module), factory)(**asked["options"])
    return task


def answer(task: Task, request: dict[str, Any]) -> dict[str, Any]:
    """Do what the request asks for; an error comes with the index of the text that causes it, if one does."""
    method, arguments = request["method"], request["arguments"]
    try:
        return {"result": getattr(task, method)(*arguments)}
    except Exception as error:  # noqa: BLE001 - the border of the process: the parent must hear of every error
        traceback.print_exc()
        culprit = _culprit(task, arguments[0]) if method == "correct" else None
        return {"error": _told(error), "index": culprit}


def _culprit(task: Task, texts: list[str]) -> int | None:
    """The first text that fails alone; None if each goes well by itself."""
    for index, text in enumerate(texts):
        try:
            task.correct([text])
        except Exception:  # noqa: BLE001 - told already; here only its place is looked for
            return index
    return None


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _read(requests: SimpleQueue[dict[str, Any]]) -> None:
    """Pass the requests on. The end of the input ends the process, in the middle of a request too."""
    for received in sys.stdin.buffer:
        if received.endswith(b"\n"):
            requests.put(parsed(received))
    os._exit(0)


def _serve(requests: SimpleQueue[dict[str, Any]], reply: Callable[[dict[str, Any]], None]) -> None:
    try:
        task = load(requests.get())
    except tuple(LOAD_ERRORS.values()) as error:
        kind = next(name for name, own in LOAD_ERRORS.items() if isinstance(error, own))
        reply({"error": str(error), "kind": kind})
        return
    reply({"result": task.about()})
    while True:
        reply(answer(task, requests.get()))


def main() -> None:
    """Load, then answer until the input ends."""
    # What libraries print must not stand between the answers.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def reply(message: dict[str, Any]) -> None:
        replies.write(line(message))
        replies.flush()

    requests: SimpleQueue[dict[str, Any]] = SimpleQueue()
    Thread(target=_read, args=(requests,), daemon=True).start()
    with suppress(BrokenPipeError):  # the parent is gone: nobody is left to tell
        _serve(requests, reply)


if __name__ == "__main__":
    main()
