"""What any training run can be told; applications add fields of their own by inheriting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TypeVar


@dataclass(frozen=True)
class LoopConfig:
    """Budget, rates, averages and rhythm of a run (times in minutes, `longest_step` in seconds)."""

    minutes: float = 60.0
    until: str = ""
    optimizer: str = "muon"
    lr: float = 2e-3
    embed_lr: float = 2e-3
    warmup_steps: int = 200
    decay_share: float = 0.30
    final_share: float = 0.30
    ema: float = 0.995
    clip: float = 1.0
    checkpoint_minutes: float = 5.0
    export_minutes: float = 15.0
    patience: int = 0
    max_steps: int = 0
    threads: int = 0
    seed: int = 1
    longest_step: float = 5.0


Config = TypeVar("Config", bound=LoopConfig)


def override(config: Config, items: Iterable[str]) -> Config:
    """The config with `name=value` items put in; ValueError where a name or a value does not fit."""
    types = {f.name: type(getattr(config, f.name)) for f in fields(config)}
    for item in items:
        name, _, value = item.partition("=")
        if name not in types:
            raise ValueError(f"no setting `{name}`; there are {', '.join(types)}")
        config = replace(config, **{name: types[name](value)})
    return config
