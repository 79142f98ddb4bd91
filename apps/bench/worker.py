"""One contestant in a process of its own: `python -m apps.bench.worker`, driven by `apps.bench.worker_process`.

The first line of standard input says what to load (`Load`), every further one is a turn: `{"texts": [...],
"rows": n}`. Each is answered with one line of JSON. Loading and a failed load are the process's life and death; a
turn that cannot be run is answered with its reason, and the process goes on. Between turns it waits for
input and costs nothing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from apps.bench.timing import Runner


@dataclass(frozen=True)
class Job:
    """What is alike for all contestants. `converted` is the folder of CTranslate2's copy of the weights."""

    model: str
    max_new_tokens: int
    max_rows: int
    converted: str = ""


@dataclass(frozen=True)
class Load:
    """What one worker loads: a name of `LOADERS`, the threads it may use, and options of the loader."""

    kind: str
    job: Job
    threads: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Phased(Protocol):
    """A runner that knows where its time goes."""

    def phase_seconds(self) -> dict[str, float]:
        """Seconds by phase since it was made."""
        ...


def _engine(load: Load) -> Runner:
    model, job = Path(load.job.model), load.job
    if "workers" in load.options:
        from apps.bench.pooled import PooledRunner

        return PooledRunner(model, job.max_new_tokens, job.max_rows, threads=load.threads, **load.options)
    from apps.bench.ours import EngineRunner

    _use_threads(load.threads)
    return EngineRunner(model, job.max_new_tokens, job.max_rows, **load.options)


def _transformers(load: Load) -> Runner:
    import torch

    from apps.bench.peers import TransformersPeer

    _use_threads(load.threads)
    options = dict(load.options)
    dtype = getattr(torch, options.pop("dtype"))
    return TransformersPeer(load.job.model, dtype, load.job.max_new_tokens, **options)


def _ctranslate2(load: Load) -> Runner:
    from apps.bench.peers import CTranslate2Peer

    return CTranslate2Peer(
        load.job.model, load.job.converted, load.job.max_new_tokens, threads=load.threads, **load.options
    )


def _chat_engine(load: Load) -> Runner:
    from apps.bench.rag.chatters import EngineChatter

    _use_threads(load.threads)
    return EngineChatter(load.job.model, max_new_tokens=load.job.max_new_tokens, **load.options)


def _chat_transformers(load: Load) -> Runner:
    from apps.bench.rag.chatters import TransformersChatter

    _use_threads(load.threads)
    return TransformersChatter(load.job.model, max_new_tokens=load.job.max_new_tokens, **load.options)


def _chat_ctranslate2(load: Load) -> Runner:
    from apps.bench.rag.chatters import CTranslate2Chatter

    job = load.job
    return CTranslate2Chatter(
        job.model,
        max_new_tokens=job.max_new_tokens,
        converted=job.converted,
        threads=load.threads,
        **load.options,
    )


def _use_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)


LOADERS: dict[str, Callable[[Load], Runner]] = {
    "engine": _engine,
    "transformers": _transformers,
    "ctranslate2": _ctranslate2,
    "chat_engine": _chat_engine,
    "chat_transformers": _chat_transformers,
    "chat_ctranslate2": _chat_ctranslate2,
}


def answer(runner: Runner, turn: Mapping[str, Any]) -> dict[str, Any]:
    """Run one turn; only the work on the texts is timed."""
    before = _phase_seconds(runner)
    start = time.perf_counter()
    try:
        outputs = runner(turn["texts"], turn["rows"])
    except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}".split("\n")[0]}
    seconds = time.perf_counter() - start
    after = _phase_seconds(runner)
    return {
        "seconds": seconds,
        "outputs": [(out.token_ids, out.text, out.passes) for out in outputs],
        "phases": {phase: after[phase] - before[phase] for phase in after},
    }


def _phase_seconds(runner: Runner) -> dict[str, float]:
    return runner.phase_seconds() if isinstance(runner, Phased) else {}


def main() -> None:
    """Load what the first line says, then answer turns until the input ends."""
    # What libraries print must not stand between the answers.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    wanted = json.loads(sys.stdin.readline())
    load = Load(**(wanted | {"job": Job(**wanted["job"])}))
    runner = LOADERS[load.kind](load)
    print(json.dumps({"loaded": load.kind}), file=replies, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(runner, json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
