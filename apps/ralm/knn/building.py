"""From texts and a causal model to a datastore: the vector of every context and the token that followed it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from core import Engine

from .datastore import Datastore
from .reading import check_readable, encode, read_contexts


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

    Raises ValueError for texts without two tokens, a model or window that cannot be, or an unknown index.
    """
    check_readable(engine, window)
    ids = [encode(engine, text) for text in texts]
    count = sum(max(0, len(tokens) - 1) for tokens in ids)
    if not count:
        raise ValueError("no text has two tokens; give longer ones")

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        done = 0
        for tokens in ids:
            for states, followers, _ in read_contexts(engine, tokens, window):
                done += len(followers)
                progress(done, count)
                yield states, followers

    return Datastore.write(folder, blocks(), count, index=index)
