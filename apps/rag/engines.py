"""Engines by settings, loaded once and shared by all who ask for the same.

Knows how loading fails. Does not know messages.
"""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from apps.drafter_options import read_options
from apps.places import shipped

if TYPE_CHECKING:
    from core import Engine

    from .decoding import Turns


def default_model() -> str:
    """The chat model that ships with the repository."""
    return str(shipped("models/chat-small"))


def checked_model(name: str) -> str:
    """The name with `~` expanded. Raises ValueError, with a remedy, for a path that leads nowhere."""
    name = os.path.expanduser(name)
    path = Path(name)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ValueError(
                f"{name!r} is a folder without config.json; give the folder of a transformers model"
            )
        return name
    if path.exists():
        raise ValueError(f"{name!r} is a file; give the folder that holds the model's config.json")
    if name == default_model():
        raise ValueError(
            f"the shipped model is not at {name!r}; train it with python -m apps.rag.train, or give another "
            "model: a folder, or a hub id such as Qwen/Qwen3-0.6B"
        )
    if os.path.isabs(name) or name.startswith(".") or name.count("/") != 1 or "\\" in name:
        raise ValueError(f"there is no model at {name!r}; give a folder or a hub id such as Qwen/Qwen3-0.6B")
    return name


@dataclass(frozen=True)
class EngineSettings:
    """What tells one engine from another; see `core.Engine.from_pretrained`. `threads` are torch's on the CPU;
    `drafter_options` are `NAME=VALUE` texts."""

    model: str
    drafter: str = "copy"
    device: str = "auto"
    dtype: str = "auto"
    exact: bool = False
    max_rows: int = 32
    threads: int | None = None
    drafter_options: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class SharedEngine:
    """An engine, and the coroutines' way to it."""

    engine: Engine
    turns: Turns

    @classmethod
    def of(cls, engine: Engine) -> SharedEngine:
        """Wrap an engine that runs already."""
        from .decoding import Turns

        return cls(engine, Turns(engine))


_engines: weakref.WeakValueDictionary[EngineSettings, SharedEngine] = weakref.WeakValueDictionary()
_loading = threading.Lock()


def engine_for(settings: EngineSettings) -> SharedEngine:
    """The engine of these settings; it lives as long as anyone holds it. Raises ValueError for what cannot load."""
    with _loading:
        shared = _engines.get(settings)
        if shared is None:
            shared = _engines[settings] = SharedEngine.of(_load(settings))
        return shared


def _load(settings: EngineSettings) -> Engine:
    name = checked_model(settings.model)  # a path that leads nowhere is told before torch is imported
    import torch
    from transformers.utils import logging

    from core import Engine

    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    shows_progress = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # a small model needs none; a hub download shows its own
    try:
        engine = Engine.from_pretrained(
            name,
            drafter=settings.drafter,
            drafter_options=read_options(settings.drafter_options),
            device=settings.device,
            dtype=settings.dtype,
            exact=settings.exact,
            max_rows=settings.max_rows,
        )
    except OSError as error:  # transformers says so of hub ids that do not exist or cannot be reached
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        remedy = "Give a folder, or a hub id with a network."
        raise ValueError(f"the model {name!r} cannot be loaded: {first} {remedy}") from error
    finally:
        if shows_progress:
            logging.enable_progress_bar()
    if engine.target.is_encoder_decoder:
        raise ValueError(f"{name!r} is an encoder-decoder model, which cannot chat; give a decoder-only one")
    return engine
