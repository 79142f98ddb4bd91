"""Kills batch jobs: at every step that touches the disk, in the middle of a write, and at random instants.

`python killer.py MODE IN OUT EXPECTED`: start a job, kill it, start it again until it is done, compare with what
an uninterrupted job wrote; prints the number of kills. A child is a fork, so that a kill costs milliseconds.
"""

import itertools
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from batch_stub import StubCorrector, content

from apps.gec.batch import JobConfig, byte_sink, run_job

ENDINGS = ("", ".partial", ".journal", ".journal.new", ".rejects.jsonl", ".lock")


def forked(work: Callable[[], object], kill_after: float | None = None) -> bool:
    """Do `work` in a child process; True if it lived to the end."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(9)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    assert os.waitstatus_to_exitcode(status) == 0, "the job failed by itself"
    return True


def dies_at(module: object, name: str, countdown: list[int], before: bool) -> None:
    """Let the process die right before or after the n-th call of any function patched with this countdown."""
    original = getattr(module, name)

    def patched(*args: object, **kwargs: object) -> object:
        countdown[0] -= 1
        if countdown[0] == 0 and before:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return original(*args, **kwargs)
        finally:  # also after a call that fails, as unlinking a missing file does
            if countdown[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    setattr(module, name, patched)


def tears_at(countdown: int) -> None:
    """Let the process die in the middle of the n-th write to a growing file."""
    append = byte_sink.AppendFile.append
    count = itertools.count(1)

    def torn(self: byte_sink.AppendFile, written: bytes) -> int:
        if next(count) == countdown:
            append(self, written[: len(written) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return append(self, written)

    byte_sink.AppendFile.append = torn  # type: ignore[method-assign]


def job(config: JobConfig, seconds_per_text: float = 0.0) -> None:
    run_job(config, StubCorrector(seconds_per_text))


def each_step(config: JobConfig, mode: str) -> int:
    """Kill a fresh job at its n-th step, for every n there is."""
    for step in itertools.count(1):
        remove_all(config.output)

        def killed(step: int = step) -> None:
            countdown = [step]
            if mode == "torn":
                tears_at(step)
            else:
                for name in ("fsync", "replace", "truncate", "unlink", "mkdir"):
                    dies_at(os, name, countdown, before=mode == "before")
            job(config)

        if forked(killed):
            return step - 1
        assert forked(lambda: job(config))
        check(config.output)
    raise AssertionError("unreachable")


def random_instants(config: JobConfig) -> int:
    """Kill one job again and again until it is done nevertheless."""
    clock = random.Random(7)
    for kills in itertools.count():
        longest = (
            0.1 + 0.01 * kills
        )  # on a busy machine the last step alone may take longer than a fixed limit
        if forked(lambda: job(config, seconds_per_text=0.0003), kill_after=clock.uniform(0.0, longest)):
            return kills
    raise AssertionError("unreachable")


def remove_all(output: Path) -> None:
    for ending in ENDINGS:
        path = output.with_name(output.name + ending)
        if path.is_dir():
            for part in path.iterdir():
                part.unlink()
            path.rmdir()
        path.unlink(missing_ok=True)


def check(output: Path) -> None:
    expected = Path(sys.argv[4])
    assert content(output) == content(expected), f"{output} differs from {expected}"
    rejects = [path.with_name(path.name + ".rejects.jsonl").read_bytes() for path in (output, expected)]
    assert rejects[0] == rejects[1], "the rejects differ"
    left = {path.name for path in output.parent.glob(output.name + "*")}
    assert left == {output.name + ending for ending in ("", ".journal", ".rejects.jsonl")}, left


if __name__ == "__main__":
    # A kill, unlike a power cut, loses nothing that was handed to the system: do not wait for the disk.
    os.fsync = lambda descriptor: None  # type: ignore[assignment]
    mode, source, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    settings = JobConfig(source, target, batch_size=4, max_window=16)
    if source.suffix == ".parquet":
        import pyarrow.compute
        import pyarrow.parquet  # noqa: F401 - here, so that no child pays for it
    num_kills = random_instants(settings) if mode == "random" else each_step(settings, mode)
    check(target)
    print(num_kills)
