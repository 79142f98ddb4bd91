"""Kills a writing process at every step of a change; run as a program, it prints one line per violation.

Each statement given to SQLite and each file opened, renamed or removed in the folder is a step. The survivor
must hold the state before the change, or the one after it, and go on from there.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np

from retrieval import FaissStore
from retrieval.storage import change
from retrieval.storage.passages import PassageFile

STATES = [{"a": "one", "b": "two"}, {"b": "2", "c": "three"}, {"b": "2", "c": "three", "d": "four"}]


def vector(text: str) -> list[float]:
    return [float(len(text)), float(ord(text[0])), 1.0]


def change_twice(folder: Path) -> None:
    store = FaissStore(None, folder, durable=False)
    with store.transaction():
        store.delete(["a"])
        store.add_vectors(["2", "three"], None, [vector("2"), vector("three")], ids=["b", "c"])
    store.add_vectors(["four"], None, [vector("four")], ids=["d"])


def dying_at(step: int, folder: Path) -> None:
    """Go through the change in a child that is killed at a step."""
    steps = 0

    def tick() -> None:
        nonlocal steps
        steps += 1
        if steps == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect(self: PassageFile, mode: str) -> None:
        plain(self, mode)
        self.db.set_trace_callback(lambda statement: tick())

    plain, PassageFile._connect = PassageFile._connect, connect  # type: ignore[method-assign]
    change.ROWS_PER_TRANSACTION = 1
    events = ("open", "os.rename", "os.remove")
    sys.addaudithook(lambda event, seen: tick() if event in events and str(folder) in str(seen[0]) else None)
    change_twice(folder)


def violations(folder: Path) -> list[str]:
    """What is wrong with the survivor, in words."""
    store = FaissStore(None, folder, durable=False)
    found = {document.id: document.page_content for document in store.documents()}
    wrong = [] if found in STATES else [f"holds {found}"]
    for name, text in found.items():
        hits = store.search_vectors([vector(text)], k=9)
        if hits.ids[0][0] != name or set(hits.ids[0]) != set(found):
            wrong.append(f"{name} is found as {hits.ids[0]}")
    store.add_vectors(["after"], None, [vector("after")], ids=["after"])
    store.close()
    again = FaissStore(None, folder, durable=False)
    if set(again.ids_by_position) != {*found, "after"}:
        wrong.append(f"goes on as {again.ids_by_position}")
    if not np.array_equal(again.vectors(["after"]), again.metric.prepared([vector("after")], 3)):
        wrong.append("has another vector for what was added afterwards")
    again.close()
    return wrong


def main(folder: Path) -> None:
    start = FaissStore(None, folder / "start", durable=False)
    start.add_vectors(["one", "two"], None, [vector("one"), vector("two")], ids=["a", "b"])
    start.close()
    step, killed = 0, True
    while killed:
        step += 1
        shutil.copytree(folder / "start", folder / str(step))
        child = os.fork()
        if not child:
            dying_at(step, folder / str(step))
            os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        for wrong in violations(folder / str(step)):
            print(f"step {step}: {wrong}")
        shutil.rmtree(folder / str(step))
    print(f"{step} steps", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
