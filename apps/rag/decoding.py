"""Driving an engine for one answer: in the caller's thread, or from an event loop that must not be blocked.

Knows `core.Engine`'s rows. Does not know messages. Either way whoever waits for a row drives the steps of all rows,
so concurrent callers share every pass.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from core import Completion, Engine, Request
from core.types import Sequence

Result = TypeVar("Result")


def pieces(
    engine: Engine, request: Request, timeout: float | None = None
) -> Generator[str | Completion, None, None]:
    """The text of the answer piece by piece, then its completion; closing the generator frees the row.

    Raises TimeoutError when `timeout` seconds have passed.
    """
    deadline = _Deadline(timeout)
    row = engine.add(request)
    try:
        while row.finish_reason is None:
            deadline.check()
            engine.step()
            piece = engine.take(row)
            if piece:
                yield piece
        rest = engine.take(row)  # another thread's turn may have ended the row
        if rest:
            yield rest
        yield engine.completion(row)
    finally:
        engine.cancel(row)


class Turns:
    """Steps an engine for coroutines: one turn at a time in a thread of its own, awaited by all who need it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="echodraft-turns")
        self._guard = threading.Lock()
        self._turn: Future[None] | None = None
        # Text of rows whose reader has not come back for it yet.
        self._unread: dict[int, tuple[Sequence, list[str]]] = {}

    async def pieces(
        self, request: Request, timeout: float | None = None
    ) -> AsyncGenerator[str | Completion, None]:
        """As the function `pieces`; the event loop is free while tokens are computed."""
        deadline = _Deadline(timeout)
        row, unread = await self._added(request)
        try:
            finished = False
            while not finished:
                deadline.check()
                await asyncio.shield(asyncio.wrap_future(self._next_turn()))
                # Looked at before the text is: what comes later is found in the next round.
                finished = row.finish_reason is not None
                if finished:
                    await self._call(lambda: self._collect(row, unread))
                text = "".join(unread.pop(0) for _ in range(len(unread)))
                if text:
                    yield text
            yield self._engine.completion(row)
        finally:
            # Not awaited: it may have to wait for the turn under way.
            self._thread.submit(self._drop, row)

    async def _added(self, request: Request) -> tuple[Sequence, list[str]]:
        adding = self._thread.submit(self._add, request)
        try:
            return await asyncio.shield(asyncio.wrap_future(adding))
        except asyncio.CancelledError:
            # Nobody will read the row that is being added.
            adding.add_done_callback(lambda done: None if done.exception() else self._drop(done.result()[0]))
            raise

    def _add(self, request: Request) -> tuple[Sequence, list[str]]:
        row = self._engine.add(request)
        self._unread[row.id] = (row, [])
        return self._unread[row.id]

    def _drop(self, row: Sequence) -> None:
        self._unread.pop(row.id, None)
        self._engine.cancel(row)

    def _next_turn(self) -> Future[None]:
        """The turn that is under way, or a new one."""
        with self._guard:
            if self._turn is None or self._turn.done():
                self._turn = self._thread.submit(self._step)
            return self._turn

    def _step(self) -> None:
        self._engine.step()
        for row, unread in list(self._unread.values()):
            self._collect(row, unread)

    def _collect(self, row: Sequence, unread: list[str]) -> None:
        piece = self._engine.take(row)
        if piece:
            unread.append(piece)

    async def _call(self, call: Callable[[], Result]) -> Result:
        return await asyncio.shield(asyncio.wrap_future(self._thread.submit(call)))


async def in_thread(call: Callable[[], Result]) -> Result:
    """The result of a call that computes or loads, made where it does not block the event loop."""
    return await asyncio.get_running_loop().run_in_executor(None, call)


class _Deadline:
    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    def check(self) -> None:
        if self._end is not None and time.monotonic() > self._end:
            raise TimeoutError(f"no complete answer within timeout={self._seconds} seconds")
