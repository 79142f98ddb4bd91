"""The likeliest tokens at every verified node, in one call for all rows.

Knows logits and trees. Does not know what a drafter makes of them.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch

from core.targets.base import PassOutput
from core.types import DraftTree

#: Vocabularies of so many tokens are searched in two stages, by blocks of `_BLOCK`.
_LARGE = 4096
_BLOCK = 128


def top_tokens(
    trees: Seq[DraftTree], output: PassOutput, num_tokens: int
) -> tuple[list[list[int]], list[list[float]]]:
    """Token ids and probabilities [M, k], likeliest first, at the pending token and the nodes of each row in turn;
    M = sum(1 + N). The probabilities are a softmax over the k tokens alone: the tail is left out."""
    logits = _verified(trees, output)
    values, ids = largest(logits, min(num_tokens, logits.shape[-1]))
    # float64 holds every token id, so both travel in one copy.
    both = torch.stack([ids.to(torch.float64), values.to(torch.float64).softmax(-1)]).tolist()
    return [[int(token) for token in row] for row in both[0]], both[1]


def best_tokens(trees: Seq[DraftTree], output: PassOutput) -> list[int]:
    """The likeliest token at each of the M places of `top_tokens`."""
    best: list[int] = _verified(trees, output).argmax(-1).tolist()
    return best


def _verified(trees: Seq[DraftTree], output: PassOutput) -> torch.Tensor:
    """Logits [M, V] without the padding of shorter rows."""
    if len(trees) == 1:
        return output.row_logits(0, 1 + len(trees[0]))
    return torch.cat([output.row_logits(b, 1 + len(tree)) for b, tree in enumerate(trees)])


def largest(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`topk`. In a large vocabulary the k largest lie in the k blocks with the largest maxima: half the time."""
    num_blocks = logits.shape[1] // _BLOCK
    if logits.shape[1] < _LARGE or logits.shape[1] % _BLOCK or len(logits) < 4 or k > num_blocks:
        return logits.topk(k, dim=-1)
    blocks = logits.view(len(logits), num_blocks, _BLOCK)
    chosen = blocks.amax(-1).topk(k, dim=-1, sorted=False).indices
    some = blocks.gather(1, chosen[:, :, None].expand(-1, -1, _BLOCK)).view(len(logits), -1)
    values, places = some.topk(k, dim=-1)
    return values, chosen.gather(1, places // _BLOCK) * _BLOCK + places % _BLOCK
