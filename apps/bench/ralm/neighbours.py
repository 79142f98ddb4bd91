"""The part over KNN-LM: a datastore of millions of contexts, searched exactly at every token.

Knows how the datastore is filled: contexts that the model has read, as many as there is time for, and synthetic ones
behind them (normal, with the mean and spread of the real ones), which make a search as long as real ones would.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.bench.ralm.contest import figures, measure
from apps.bench.ralm.setting import RalmBench, engine_of, prompts_of
from apps.bench.report import say
from apps.ralm import Datastore, KnnConfig, KnnLM
from apps.ralm.knn.reading import encode, read_contexts
from core import Engine, SamplingParams
from retrieval.storage.metric import Floats

#: A text of so many passages is read as one.
_TOGETHER = 50
#: One passage in so many stays out of the datastore, for the prompts.
_HELD = 100
_BLOCK = 100_000
_WINDOW = 256
_BANDWIDTH = 10.0


def knn_part(bench: RalmBench, texts: Sequence[str]) -> dict[str, Any]:
    """Plain and speculative KNN-LM at every k, exact search."""
    # Without a drafter every token asks once, which is what plain KNN-LM is.
    engine, cells = engine_of(bench, "none", bench.hidden), []
    with TemporaryDirectory() as folder:
        datastore, num_read = _datastore(bench, engine, texts, Path(folder))
        prompts, until = prompts_of(texts[::_HELD], bench.prompts), time.monotonic() + 30 * bench.minutes
        for number, k in enumerate(bench.neighbours):
            config = KnnConfig(k=k, bandwidth=_BANDWIDTH)
            models = {
                "sequential": KnnLM(engine, datastore, mode="sequential", config=config),
                "speculative": KnnLM(engine, datastore, config=config),
            }
            for model in models.values():
                model.generate(prompts[:1], SamplingParams(max_new_tokens=2))
            now = time.monotonic()
            share = max(0.0, until - now) / (len(bench.neighbours) - number)
            tallies = measure(models, prompts, bench.max_tokens, now + share)
            cells.append({"k": k, **figures(tallies["sequential"], tallies["speculative"])})
            say(f"k = {k}: {cells[-1]['speedup']:.2f}x")
    about = {"entries": bench.entries, "read": num_read, "synthetic": bench.entries - num_read}
    return {**about, "dimension": datastore.dimension, "index": "flat", "cells": cells}


def _datastore(bench: RalmBench, engine: Engine, texts: Sequence[str], folder: Path) -> tuple[Datastore, int]:
    """The datastore, and how many of its contexts were read by the model."""
    say(f"filling a datastore of {bench.entries:,} contexts")
    num_read = 0
    until = time.monotonic() + 30 * bench.minutes

    def blocks() -> Iterator[tuple[Floats, npt.NDArray[np.int32]]]:
        nonlocal num_read
        some: list[Floats] = []
        for states, followers in _real(engine, texts, until):
            left = bench.entries - num_read
            num_read += min(left, len(followers))
            some = [states] if len(some) > _HELD else [*some, states]
            yield states[:left], followers[:left]
            if num_read == bench.entries:
                return
        yield from _synthetic(np.concatenate(some), bench.entries - num_read, len(engine.tokenizer))

    store = Datastore.write(folder, blocks(), bench.entries)
    return store, num_read


def _real(
    engine: Engine, texts: Sequence[str], until: float
) -> Iterator[tuple[Floats, npt.NDArray[np.int32]]]:
    """What the model reads until then, but for the held passages."""
    read = [text for number, text in enumerate(texts) if number % _HELD]
    for start in range(0, len(read), _TOGETHER):
        tokens = encode(engine, "\n\n".join(read[start : start + _TOGETHER]))
        for states, followers, _ in read_contexts(engine, tokens, _WINDOW):
            yield states, followers
        if time.monotonic() > until:
            return


def _synthetic(like: Floats, count: int, vocab_size: int) -> Iterator[tuple[Floats, npt.NDArray[np.int32]]]:
    rng: Any = np.random.default_rng(0)
    mean, spread = like.mean(0), like.std(0)
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        keys = rng.standard_normal((size, like.shape[1]), dtype=np.float32) * spread + mean
        yield keys, rng.integers(0, vocab_size, size, dtype=np.int32)
