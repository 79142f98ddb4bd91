"""Shards of training rows made ahead of time by another process.

Knows a spec (a frozen dataclass with `out` and `seed`) and the module that turns one into a file when run
as `python -m MODULE SPEC.json`. Does not know what a shard holds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any


class ShardFeed:
    """Hands out shards in turn and has the next one made meanwhile by another process."""

    def __init__(self, base: Any, folder: Path, module: str = "") -> None:
        self.base = base
        # The module that defines a spec is the one that builds from it, unless another is named.
        self.module = module or type(base).__module__
        self.folder = folder
        self.running: dict[Path, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, kind: str, index: int) -> Path:
        """Where a shard of a kind lies."""
        return self.folder / f"{kind}-{index:05d}.npz"

    def prepare(self, kind: str, index: int, **changes: Any) -> Path:
        """Starts the making of a shard that is not there yet."""
        out = self.path(kind, index)
        if out.exists() or out in self.running:
            return out
        # The kind is part of the seed, so that kinds never repeat each other's draws.
        seed = 7919 * index + 104_729 * sum(kind.encode()) + self.base.seed
        spec = replace(self.base, out=str(out), seed=seed, **changes)
        note = out.with_suffix(".json")
        note.write_text(json.dumps(asdict(spec)))
        env = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
        self.running[out] = subprocess.Popen([sys.executable, "-m", self.module, str(note)], env=env)
        return out

    def wait(self, out: Path) -> Path:
        """The shard once it is whole; RuntimeError where making it failed."""
        process = self.running.pop(out, None)
        if process is not None and process.wait() != 0:
            raise RuntimeError(f"making {out.name} failed; the error is above")
        return out

    def close(self) -> None:
        """Stops whatever is still being made."""
        for process in self.running.values():
            process.terminate()
            process.wait()
        self.running.clear()
