"""A contestant in its own process: what it answers, and what its parent says when it fails or dies."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from apps.bench.timing import Output, RunFailed
from apps.bench.worker import Job, Load, answer
from apps.bench.worker_process import WorkerProcess

LOAD = Load("engine", Job("model", 8, 4), threads=2, options={"drafter": "copy"})
# The protocol's other side, without a runtime: shouts the text back, prints noise, fails or dies on request.
ECHO = """
import json, os, sys
load = json.loads(sys.stdin.readline())
if load["options"].get("fails"):
    raise ValueError("there is no such drafter;\\nuse another")
print(json.dumps({"loaded": load["kind"]}), flush=True)
for line in sys.stdin:
    turn = json.loads(line)
    if turn["texts"] == ["die"]:
        os._exit(7)
    outputs = [[[turn["rows"], load["threads"]], text.upper(), 3] for text in turn["texts"]]
    reply = {"seconds": 0.25, "outputs": outputs, "phases": {"forward": 0.125}}
    print(json.dumps({"error": "ValueError: no batches"} if turn["rows"] > 4 else reply), flush=True)
"""


def echo(load: Load = LOAD) -> WorkerProcess:
    return WorkerProcess(load, (sys.executable, "-S", "-c", ECHO))


class Shouter:
    """A runner whose phases advance by one second a text."""

    spent = 5.0

    def __call__(self, texts: Sequence[str], rows: int) -> list[Output]:
        if rows > 1:
            raise ValueError("only one\nreally")
        self.spent += len(texts)
        return [Output((1, 2), text.upper(), 1) for text in texts]

    def phase_seconds(self) -> dict[str, float]:
        return {"forward": self.spent}


def test_a_turn_is_answered_with_its_outputs_and_its_own_phases() -> None:
    reply = answer(Shouter(), {"texts": ["é", "b"], "rows": 1})
    assert reply["outputs"] == [((1, 2), "É", 1), ((1, 2), "B", 1)]
    assert reply["phases"] == {"forward": 2.0}
    assert reply["seconds"] >= 0


def test_a_turn_that_cannot_be_run_is_answered_with_the_reason() -> None:
    assert answer(Shouter(), {"texts": ["a"], "rows": 2}) == {"error": "ValueError: only one"}


def test_a_worker_gets_what_to_load_and_gives_back_runs() -> None:
    with echo() as worker:
        worker.wait()
        run = worker(["é"], 4)
        assert run.outputs == [Output((4, 2), "É", 3)]
        assert (run.seconds, run.phases) == (0.25, {"forward": 0.125})
        with pytest.raises(RunFailed, match=r"^ValueError: no batches$"):
            worker(["a"], 5)
        assert worker(["a"], 1).outputs[0].text == "A"


def test_a_worker_that_cannot_load_tells_the_error_itself() -> None:
    with (
        echo(Load("engine", LOAD.job, options={"fails": True})) as worker,
        pytest.raises(RunFailed, match=r"^ValueError: there is no such drafter;$"),
    ):
        worker.wait()


def test_a_worker_that_dies_is_reported_and_can_be_closed_twice() -> None:
    with echo() as worker:
        worker.wait()
        for _ in range(2):
            with pytest.raises(RunFailed, match="ended with code 7"):
                worker(["die"], 1)
        worker.close()
