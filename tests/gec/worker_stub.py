"""Tasks for worker processes that load no model. Imported by processes that pytest does not start."""

from __future__ import annotations

import os
import signal
import time
from typing import Any


class Shouting:
    """Upper-cases. Obeys some texts: DIE kills the process, FAIL fails; SLEEP never ends."""

    def __init__(self, seconds: float = 0.0, device: str = "cpu", memory: int = 1) -> None:
        self.seconds, self.device, self.memory = seconds, device, memory
        self.mark = "!"
        self.threads = int(os.environ["OMP_NUM_THREADS"])

    def about(self) -> dict[str, Any]:
        return {"device": self.device, "memory": self.memory}

    def use_threads(self, count: int) -> None:
        self.threads = count

    def use_mark(self, mark: str) -> None:
        self.mark = mark

    def correct(self, texts: list[str]) -> list[Any]:
        if "DIE" in texts:
            os.kill(os.getpid(), signal.SIGKILL)
        if "FAIL" in texts:
            raise RuntimeError("no room")
        if "SLEEP" in texts:
            time.sleep(600)
        time.sleep(self.seconds * len(texts))
        print("noise that must not stand between the answers")
        return [[text.upper() + self.mark, os.getpid(), self.threads] for text in texts]


def load(**options: Any) -> Shouting:
    return Shouting(**options)


def load_nothing() -> Shouting:
    raise ValueError("there is no such model; give another")


def load_fakes(**settings: Any) -> Any:
    """The real task over an engine that corrects by rule."""
    from gec_fakes import RuleEngine, plain_errors

    from apps.gec.config import CorrectorConfig
    from apps.gec.corrector import Corrector
    from apps.gec.workers.correcting import Correcting

    engine: Any = RuleEngine(plain_errors)
    engine.target.device = type("Device", (), {"type": "cpu"})
    names = {"model": "org/fake", "max_source_tokens": settings["max_source_tokens"]}
    corrector = Corrector(**names, engine=engine)
    assert CorrectorConfig(**settings).threads is None
    return Correcting(corrector)
