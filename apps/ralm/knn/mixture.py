"""The mixture of what the model says and what followed the nearest contexts, as logits for the core.

Knows distributions. Does not know where neighbours come from: the same mixture serves plain decoding (all from the
datastore), guesses (from a cache) and their verification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from core.types import DraftTree
from retrieval.storage.metric import Floats

from ..recording import PathRecorder
from .config import KnnConfig
from .datastore import Neighbours

Lookup = Callable[[Floats], list[Neighbours]]
"""queries [M, D] -> the neighbours of each"""


def mix(logits: torch.Tensor, neighbours: Neighbours, config: KnnConfig) -> torch.Tensor:
    """log(weight * p_knn + (1 - weight) * p_lm) [V] from logits [V], in their dtype; without neighbours log p_lm."""
    if not len(neighbours.labels):
        return logits.log_softmax(-1)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    nearness = -torch.as_tensor(neighbours.distances, device=wide.device).to(wide.dtype) / config.bandwidth
    probs = (1 - config.weight) * wide.softmax(-1)
    tokens = torch.as_tensor(neighbours.tokens.astype("int64"), device=wide.device)
    probs.index_add_(0, tokens, config.weight * nearness.softmax(-1))
    return probs.log().to(logits.dtype)


@dataclass(frozen=True)
class Step:
    """What the model said before one token: its logits [V] and the query [D] that it asks with."""

    logits: torch.Tensor
    query: Floats


class KnnTransform:
    """A `core.types.LogitsTransform` that asks `lookup` at every node; `keeps` remembers what the model itself said."""

    needs_hidden = True

    def __init__(self, lookup: Lookup, config: KnnConfig, *, keeps: bool = False) -> None:
        self._lookup = lookup
        self._config = config
        self._keeps = keeps
        self._recorder: PathRecorder[Step] = PathRecorder()

    def apply(
        self, logits: torch.Tensor, prefix: Sequence[int], tree: DraftTree, hidden: torch.Tensor | None
    ) -> torch.Tensor:
        assert hidden is not None, "neighbours are found by the hidden state"
        queries = hidden.to(torch.float32).cpu().numpy()
        if self._keeps:
            steps = [Step(row.clone(), query.copy()) for row, query in zip(logits, queries, strict=True)]
            self._recorder.record(len(prefix), tree, steps)
        found = self._lookup(queries)
        return torch.stack([mix(row, one, self._config) for row, one in zip(logits, found, strict=True)])

    def steps(self, tokens: Sequence[int], num_prompt: int) -> list[Step]:
        """What was kept on the way to `tokens` [prompt and text], for each token behind the prompt."""
        return self._recorder.along(tokens, num_prompt)
