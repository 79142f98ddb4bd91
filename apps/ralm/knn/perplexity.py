"""How well a text is foretold, by the model alone and with its neighbours. Knows the mixture and nothing of speed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .knn_lm import KnnLM
from .mixture import mix
from .reading import check_readable, encode, read_contexts


@torch.inference_mode()
def perplexity(
    model: KnnLM,
    text: str,
    *,
    window: int = 256,
    limit: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """exp of the mean negative log-likelihood of every token but the first (of the first `limit`), in the model's
    tokens: `lm_perplexity` of the model, `knn_lm_perplexity` of the mixture (Khandelwal et al. 1911.00172).

    A text that the datastore was built from finds itself: give another one.
    Raises ValueError for a text without two tokens, or a window that the model cannot read.
    """
    check_readable(model.engine, window)
    tokens = encode(model.engine, text)[: None if limit is None else limit + 1]
    if len(tokens) < 2:
        raise ValueError("the text has fewer than two tokens; give a longer one")
    plain = mixed = 0.0
    done = 0
    for states, followers, logits in read_contexts(model.engine, tokens, window, with_logits=True):
        assert logits is not None
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        found = model.datastore.search(states, model.config.k)
        for row, neighbours, token in zip(logits, found, followers.tolist(), strict=True):
            plain -= float(row.log_softmax(-1)[token])
            mixed -= float(mix(row, neighbours, model.config)[token])
        done += len(followers)
        progress(done, len(tokens) - 1)
    return {
        "tokens": done,
        "entries": len(model.datastore),
        "lm_perplexity": math.exp(plain / done),
        "knn_lm_perplexity": math.exp(mixed / done),
        "lambda": model.config.weight,
        "k": model.config.k,
        "bandwidth": model.config.bandwidth,
    }
