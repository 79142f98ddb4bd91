"""A causal model over long texts: the state before every token, once each, and what the model says there.

Knows the engine's model. Texts are read in windows that overlap by half, so that every context but a text's beginning
has at least half a window behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from core import Engine
from retrieval.storage.metric import Floats

_READ_AT_ONCE = 8


class Contexts(NamedTuple):
    """Some contexts of a text in their order: `states` [m, D], the tokens that followed [m], and where they were
    asked for the `logits` [m, V]."""

    states: Floats
    followers: npt.NDArray[np.int32]
    logits: torch.Tensor | None


def encode(engine: Engine, text: str) -> list[int]:
    """The tokens of a text of any length."""
    ids: list[int] = engine.tokenizer.encode(text, add_special_tokens=True, verbose=False)
    return ids


def check_readable(engine: Engine, window: int) -> None:
    """Raises ValueError for an encoder-decoder model, and for a window that the model cannot read."""
    if engine.target.is_encoder_decoder:
        raise ValueError("KNN-LM needs a decoder-only model")
    if not 2 <= window <= engine.target.max_length:
        raise ValueError(
            f"window={window} must lie between 2 and the model's {engine.target.max_length} positions"
        )


def read_contexts(
    engine: Engine, tokens: Sequence[int], window: int, *, with_logits: bool = False
) -> Iterator[Contexts]:
    """Every token but the first as a follower; ask `check_readable` before."""
    stride = window // 2
    starts = range(0, max(1, len(tokens) - 1 - window + stride), stride) if len(tokens) > 1 else range(0)
    for first in range(0, len(starts), _READ_AT_ONCE):
        some = starts[first : first + _READ_AT_ONCE]
        for start, (states, logits) in zip(
            some, _read(engine, tokens, some, window, with_logits), strict=True
        ):
            # The windows before have given all but the last `stride` contexts of a later one.
            skipped = window - stride if start else 0
            followers = np.asarray(tokens[start + skipped + 1 : start + window + 1], dtype=np.int32)
            kept = slice(skipped, skipped + len(followers))
            if len(followers):
                yield Contexts(states[kept], followers, None if logits is None else logits[kept])


@torch.inference_mode()
def _read(
    engine: Engine, tokens: Sequence[int], starts: Sequence[int], window: int, with_logits: bool
) -> Iterator[tuple[Floats, torch.Tensor | None]]:
    """States [<= window, D] and logits of each window; short ones are padded behind, which no token sees."""
    model: Any = engine.target.model  # type: ignore[attr-defined]
    rows = [list(tokens[start : start + window]) for start in starts]
    width = max(len(row) for row in rows)
    padded = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=engine.target.device)
    if with_logits:
        out = model(input_ids=padded, use_cache=False, output_hidden_states=True)
        states, logits = out.hidden_states[-1], out.logits
    else:
        states, logits = model.base_model(input_ids=padded, use_cache=False).last_hidden_state, None
    for i, row in enumerate(rows):
        vectors = states[i, : len(row)].to(torch.float32).cpu().numpy()
        yield vectors, None if logits is None else logits[i, : len(row)]
