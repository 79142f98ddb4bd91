"""From texts and a causal model to a datastore: the vector of every context and the token that followed it.

Knows the engine's model. Long texts are read in windows that overlap by half, so that every context but a text's
beginning has at least half a window behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core import Engine

from .datastore import Datastore

_READ_AT_ONCE = 8


def build_datastore(
    engine: Engine,
    texts: Iterable[str],
    folder: str | Path,
    *,
    index: str = "flat",
    window: int = 256,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Datastore:
    """Read `texts` and write a datastore of every token but their first; `progress(done, total)` counts entries.

    Raises ValueError for texts without two tokens, a window that the model cannot read, or an unknown index.
    """
    if not 2 <= window <= engine.target.max_length:
        raise ValueError(
            f"window={window} must lie between 2 and the model's {engine.target.max_length} positions"
        )
    ids = [engine.tokenizer.encode(text, add_special_tokens=True) for text in texts]
    count = sum(max(0, len(tokens) - 1) for tokens in ids)
    if not count:
        raise ValueError("no text has two tokens; give longer ones")

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        done = 0
        for keys, tokens in _entries(engine, ids, window):
            done += len(tokens)
            progress(done, count)
            yield keys, tokens

    return Datastore.write(folder, blocks(), count, index=index)


def _entries(
    engine: Engine, ids: Sequence[Sequence[int]], window: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Keys [m, D] and tokens [m] of each window, in the order of the texts."""
    stride = window // 2
    for tokens in (tokens for tokens in ids if len(tokens) > 1):
        starts = range(0, max(1, len(tokens) - 1 - window + stride), stride)
        for first in range(0, len(starts), _READ_AT_ONCE):
            some = starts[first : first + _READ_AT_ONCE]
            for start, vectors in zip(some, _read(engine, tokens, some, window), strict=True):
                # The windows before have given all but the last `stride` contexts of a later one.
                skipped = window - stride if start else 0
                followers = np.asarray(tokens[start + skipped + 1 : start + window + 1], dtype=np.int32)
                if len(followers):
                    yield vectors[skipped : skipped + len(followers)], followers


@torch.inference_mode()
def _read(engine: Engine, tokens: Sequence[int], starts: Sequence[int], window: int) -> Iterator[np.ndarray]:
    """The last hidden states [<= window, D] of each window; short windows are padded behind, which no token sees."""
    model: Any = engine.target.model  # type: ignore[attr-defined]
    rows = [list(tokens[start : start + window]) for start in starts]
    width = max(len(row) for row in rows)
    padded = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=engine.target.device)
    states = model.base_model(input_ids=padded, use_cache=False).last_hidden_state
    for row, vectors in zip(rows, states, strict=True):
        yield vectors[: len(row)].to(torch.float32).cpu().numpy()
