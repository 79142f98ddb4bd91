"""The likeliest tokens at every verified node, in one call for all rows.

Knows logits and trees. Does not know what a drafter makes of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from itertools import repeat
from math import log

import numpy as np
import torch

from core.targets.base import PassOutput
from core.types import DraftTree

#: Vocabularies of so many tokens are searched in two stages, by blocks of `_BLOCK`.
_LARGE = 4096
_BLOCK = 128
#: Types that numpy has, too.
_NUMPY = (torch.float32, torch.float64)


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


def likely_tokens(
    passes: Seq[tuple[Seq[DraftTree], PassOutput]], num_tokens: int, min_prob: float
) -> Iterator[list[tuple[int, float]]]:
    """(token, probability), likeliest first, at each verified place of several passes in turn, ordered as those of
    `top_tokens`: at most `num_tokens`, none but the first below `min_prob`.

    On the CPU a pass of a small model costs little more than some calls into torch: there the logits are read once,
    and what is left of them is looked at for all passes together with numpy's calls, which are cheaper.
    """
    logits = passes[0][1].logits
    is_cut = num_tokens * _BLOCK < logits.shape[1] and not logits.shape[1] % _BLOCK
    if is_cut and logits.device.type == "cpu" and logits.dtype in _NUMPY:
        return _one_by_one(*_best_blocks(passes, num_tokens), num_tokens, min_prob)
    found = (zip(*top_tokens(trees, output, num_tokens), strict=True) for trees, output in passes)
    return (_without_tail(tokens, probs, min_prob) for one in found for tokens, probs in one)


def _best_blocks(passes: Seq[tuple[Seq[DraftTree], PassOutput]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each verified place the k blocks with the largest maxima, side by side [M, k * _BLOCK], and where in the
    vocabulary each begins [M, k]: the k largest logits are among them."""
    maxima, blocks = [], []
    for trees, output in passes:
        logits = _verified(trees, output).unflatten(-1, (-1, _BLOCK))
        maxima.append(logits.amax(-1).numpy())
        blocks.append(logits.numpy())
    largest_of = np.concatenate(maxima)
    chosen = np.argpartition(largest_of, -k, axis=1)[:, -k:]
    starts = np.cumsum([0, *map(len, maxima)]).tolist()
    some = [
        own[np.arange(len(own))[:, None], chosen[start : start + len(own)]]
        for own, start in zip(blocks, starts, strict=False)
    ]
    return np.concatenate(some).reshape(len(chosen), -1), chosen * _BLOCK


def _one_by_one(
    logits: np.ndarray, blocks: np.ndarray, num_tokens: int, min_prob: float
) -> Iterator[list[tuple[int, float]]]:
    """The best of each row, then the best but that, and so on while any is likely. `logits` are used up."""
    flat, rows = logits.reshape(-1), np.arange(len(logits))
    tokens, values = [], []
    for rank in range(num_tokens):
        best = logits.argmax(1)
        places = best + rows * logits.shape[1]
        values.append(flat[places])
        # A token's probability is at most its ratio to the best one's.
        if rank and (values[-1] < values[0] + log(min_prob)).all():
            values.pop()
            break
        tokens.append((blocks[rows, best // _BLOCK] + best % _BLOCK).tolist())
        flat[places] = -np.inf
    probs = np.stack(values, axis=1)
    probs = np.exp(probs - probs[:, :1])
    probs /= probs.sum(1, keepdims=True)
    return map(_without_tail, zip(*tokens, strict=True), probs.tolist(), repeat(min_prob))


def _without_tail(tokens: Seq[int], probs: Seq[float], min_prob: float) -> list[tuple[int, float]]:
    """Pairs of tokens and probabilities, up to the last that is likely enough."""
    kept = len(probs)
    while kept > 1 and probs[kept - 1] < min_prob:
        kept -= 1
    return [(tokens[0], probs[0])] if kept == 1 else [*zip(tokens[:kept], probs[:kept], strict=True)]


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
