"""A corrector without a model. Also imported by processes that pytest does not start; it must not load torch."""

import gzip
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.gec.refusals import Refusal, correct_or_refuse


@dataclass(frozen=True)
class Stubbed:
    text: str


class StubCorrector:
    """Writes `the` for `teh`. Refuses a text with REFUSE in it; writes a line break for BREAK."""

    def __init__(self, seconds_per_text: float = 0.0) -> None:
        self.seconds_per_text = seconds_per_text
        self.batches: list[list[str]] = []
        self.keeps_batches = True

    def correct_batch(self, texts: list[str]) -> list[Stubbed]:
        if self.keeps_batches:
            self.batches.append(texts)
        if self.seconds_per_text:
            time.sleep(self.seconds_per_text * len(texts))
        if any("REFUSE" in text for text in texts):
            raise ValueError("REFUSE is refused")
        return [Stubbed(text.replace("teh", "the").replace("BREAK", "\n")) for text in texts]


class StubTask:
    """The stub in a worker of a pool; fails at FAIL, and the process is killed at DIE unless `KEPT_ALIVE` is set."""

    def about(self) -> dict[str, Any]:
        return {"device": "cpu", "memory": 1}

    def use_threads(self, count: int) -> None:
        pass

    def correct(self, texts: list[str]) -> list[Any]:
        if any("DIE" in text for text in texts) and "KEPT_ALIVE" not in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        if any("FAIL" in text for text in texts):
            raise RuntimeError("no room")
        found = correct_or_refuse(texts, StubCorrector().correct_batch)
        return [
            one.reason if isinstance(one, Refusal) else [[0, len(text), one.text, {}]]
            for text, one in zip(texts, found, strict=True)
        ]


def load_task(**settings: object) -> StubTask:
    return StubTask()


def sample_lines(count: int) -> Iterable[str]:
    """Lines of very different lengths, each one unlike the others, about one in 50 a bad row."""
    for number in range(count):
        words = "teh cat sat " * (number * 7919 % 13)
        yield f"{number} {words}{'REFUSE' if number % 50 == 49 else ''}"


def content(path: Path) -> object:
    """What a file says, without what its compression or row groups add."""
    if path.name.endswith(".parquet"):
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pydict()
    return gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
