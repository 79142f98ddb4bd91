"""Logits to tokens: the one function that plain decoding, verification and draft models share.

Knows logits and `SamplingParams`. Does not know drafts, rows or caches.

Randomness is a function of (seed, position, token id) and of nothing else: Gumbel noise from a counter-based
hash. So a token does not depend on how many passes came before it, on the drafter, or on the batch.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch

from core.types import SamplingParams

_MASK64 = (1 << 64) - 1
_MASK32 = (1 << 32) - 1
#: Types that numpy has, too.
_NUMPY = (torch.float32, torch.float64)


def _mix64(x: int) -> int:
    """splitmix64's finaliser (Steele, Lea and Flood, 2014): a bijection of 64-bit words that scatters its input."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK64
    return x ^ (x >> 31)


def noise_key(seed: int, position: int, stream: int = 0) -> tuple[int, int]:
    """Two 32-bit words that name the noise of one position; `stream` separates independent uses."""
    key = _mix64(_mix64(_mix64(seed & _MASK64) ^ position) ^ stream)
    return key >> 32, key & _MASK32


def host_uniform(seed: int, position: int, stream: int) -> float:
    """A uniform number in [0, 1) named by its arguments (for accept tests of the textbook rules)."""
    high, low = noise_key(seed, position, stream)
    return ((high << 21) | (low >> 11)) / (1 << 53)


def _scramble(x: torch.Tensor) -> torch.Tensor:
    """An avalanche of 32-bit words held in int64 ("lowbias32", C. Wellons' hash prospector)."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _MASK32
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _MASK32
    return x ^ (x >> 16)


def gumbel_noise(keys: Seq[tuple[int, int]], vocab_size: int, device: torch.device) -> torch.Tensor:
    """Standard Gumbel noise [len(keys), V], float32, the same on every device for the same keys."""
    words = torch.tensor(keys, dtype=torch.int64, device=device).view(-1, 2)
    ids = torch.arange(vocab_size, dtype=torch.int64, device=device)
    mixed = _scramble(_scramble(ids ^ words[:, :1]) ^ words[:, 1:])
    # -log1p(-u) keeps the *small* exponentials precise, and the smallest one wins the race.
    uniform = (mixed.to(torch.float32) + 0.5) * 2.0**-32
    exponential = -torch.log1p(-uniform.clamp_(max=1 - 2.0**-24))
    return -torch.log(exponential)


def filter_logits(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """Scaled logits [M, V] float32 with -inf for tokens that top-k, min-p and top-p rule out.

    `params.temperature` must be positive. The filters apply in the order of transformers' `generate`:
    temperature, top-k, top-p, min-p.
    """
    scores = logits.to(torch.float32) / params.temperature
    vocab_size = scores.shape[-1]
    if 0 < params.top_k < vocab_size:
        threshold = scores.topk(params.top_k, dim=-1).values[..., -1:]
        scores = scores.masked_fill(scores < threshold, -torch.inf)
    if params.top_p < 1.0:
        ordered, order = scores.sort(dim=-1, descending=True, stable=True)
        probs = ordered.softmax(dim=-1)
        dropped = probs.cumsum(dim=-1) - probs >= params.top_p
        scores = scores.masked_fill(torch.zeros_like(dropped).scatter(-1, order, dropped), -torch.inf)
    if params.min_p > 0.0:
        probs = scores.softmax(dim=-1)
        scores = scores.masked_fill(probs < params.min_p * probs.amax(dim=-1, keepdim=True), -torch.inf)
    return scores


def perturbed_scores(logits: torch.Tensor, params: SamplingParams, positions: Seq[int]) -> torch.Tensor:
    """Scores [M, V] whose argmax is the chosen token: the logits, or filtered logits plus keyed noise.

    `positions[m]` is that of the token that row m chooses: its absolute index in the row's token list, or what
    `Request.noise_start` makes of it.
    """
    if params.temperature == 0:
        return logits
    return keyed_scores(logits, params, [noise_key(params.seed, position) for position in positions])


def keyed_scores(logits: torch.Tensor, params: SamplingParams, keys: Seq[tuple[int, int]]) -> torch.Tensor:
    """Filtered logits plus noise [M, V] for rows of any seeds: `keys[m]` names the noise of row m."""
    # Siblings in a draft tree share a position, and so a key.
    distinct = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    noise = gumbel_noise(list(distinct), logits.shape[-1], logits.device)
    if len(distinct) != len(keys):
        noise = noise[torch.tensor([distinct[key] for key in keys], device=logits.device)]
    return filter_logits(logits, params) + noise


def best_tokens(scores: torch.Tensor) -> torch.Tensor:
    """`scores.argmax(-1)`, the first of equals. On the CPU torch's own takes ten times as long as numpy's."""
    if scores.device.type == "cpu" and scores.dtype in _NUMPY:
        return torch.from_numpy(scores.numpy().argmax(-1))
    return scores.argmax(-1)


def probabilities(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """The distribution [M, V] that is sampled from: filtered softmax, or one-hot at temperature 0."""
    if params.temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(torch.float32)
    return filter_logits(logits, params).softmax(dim=-1)


def top_gap(scores: torch.Tensor) -> torch.Tensor:
    """Distance [M] between the best and the second best score: small where rounding could swap them."""
    best = scores.topk(2, dim=-1).values
    return (best[..., 0] - best[..., 1]).to(torch.float32)
