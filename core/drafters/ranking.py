"""Which tokens a draft model would choose, and how surely, at many places of many rows in one call.

Knows logits and sampling parameters. Does not know models or trees.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace
from math import log2
from typing import NamedTuple

import torch

from core.drafters.top_tokens import largest
from core.sampling import filter_logits, gumbel_noise, noise_key
from core.types import SamplingParams

#: The stream of noise that textbook drafts are drawn with: independent of the target's.
_DRAFT = 3
#: Confidences are told apart in tenths up to here, above by how little is missing to 1.
_SURE = 0.9
_SURE_STEPS = 9


class Spot(NamedTuple):
    """How the token at one place is sampled: its row's parameters, and what names its noise."""

    params: SamplingParams
    position: int


class Ranking(NamedTuple):
    """Token ids and confidences [M, k] at M places, surest first. `probs` [M, V] where they were drawn from it."""

    tokens: list[list[int]]
    confidences: list[list[float]]
    probs: torch.Tensor | None = None


def rank(logits: torch.Tensor, spots: Seq[Spot], k: int) -> Ranking:
    """The `k` likeliest choices at each place, logits [M, V].

    Gumbel coupling: sampled places are perturbed by the very noise that the target's choice will be, so the first
    is what the target chooses if it agrees with the draft model. The confidence is a softmax over the perturbed
    scores: the surer, the further the first is ahead of the others.
    """
    scores = _scores(logits, spots, stream=0)
    values, ids = largest(scores, min(k, scores.shape[-1]))
    confidences = (values - scores.logsumexp(-1, keepdim=True)).exp()
    tokens, sure = _to_host(ids, confidences)
    return Ranking(tokens, sure)


def draw(logits: torch.Tensor, spots: Seq[Spot], k: int) -> Ranking:
    """`k` tokens drawn without replacement from each place's distribution, first drawn first (Gumbel top-k, Kool et
    al. 1903.06059), for textbook speculative sampling. Confidences are 1, or 0 where no token was left to draw.

    All places must be sampled (temperature above 0).
    """
    scores = _scores(logits, spots, stream=_DRAFT)
    values, ids = largest(scores, min(k, scores.shape[-1]))
    tokens, sure = _to_host(ids, (values > -torch.inf).to(values.dtype))
    return Ranking(tokens, sure, _filtered(logits, spots).softmax(-1))


def _to_host(ids: torch.Tensor, confidences: torch.Tensor) -> tuple[list[list[int]], list[list[float]]]:
    # float64 holds every token id, so both travel in one copy.
    both = torch.stack([ids.to(torch.float64), confidences.to(torch.float64)]).tolist()
    return [[int(token) for token in row] for row in both[0]], both[1]


def _scores(logits: torch.Tensor, spots: Seq[Spot], stream: int) -> torch.Tensor:
    """Scores [M, V] whose largest is chosen: logits, filtered and perturbed where they are sampled."""
    sampled = [m for m, spot in enumerate(spots) if spot.params.temperature > 0]
    scores = _filtered(logits, spots)
    if not sampled:
        return scores
    keys = [noise_key(spots[m].params.seed, spots[m].position, stream) for m in sampled]
    distinct = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    noise = gumbel_noise(list(distinct), logits.shape[-1], logits.device)
    which = torch.tensor([distinct[key] for key in keys], device=logits.device)
    places = torch.tensor(sampled, device=logits.device)
    return scores.index_add(0, places, noise[which].to(scores.dtype))


def _filtered(logits: torch.Tensor, spots: Seq[Spot]) -> torch.Tensor:
    """float32 logits [M, V], through the filters of each place's row."""
    kinds: dict[SamplingParams, list[int]] = {}
    for m, spot in enumerate(spots):
        kinds.setdefault(replace(spot.params, seed=0, max_new_tokens=1, stop=()), []).append(m)
    scores = logits.to(torch.float32)
    for params, places in kinds.items():
        if params.temperature == 0:
            continue
        if len(kinds) == 1:
            return filter_logits(logits, params)
        index = torch.tensor(places, device=logits.device)
        scores = scores.index_copy(0, index, filter_logits(logits[index], params))
    return scores


def step_of(confidence: float) -> int:
    """Which of few steps a confidence falls on, for the calibration of estimates."""
    if confidence < _SURE:
        return int(confidence * 10)
    return _SURE_STEPS + min(int(-log2(max(1 - confidence, 1e-9))) - 3, 8)


def middle_of(step: int) -> float:
    """A confidence that falls on the step."""
    return (step + 0.5) / 10 if step < _SURE_STEPS else 1 - 2.0 ** (_SURE_STEPS - step - 3.5)
