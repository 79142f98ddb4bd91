"""Which drafted nodes stand, and which token follows: verification rules by name.

Pure: logits and a tree in, a verdict out. Knows no model, no cache, no row.

`exact` and `speculative_sampling` are lossless; `typical` and `top_beta` knowingly are not.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

import torch

from core.sampling import host_uniform, perturbed_scores, probabilities
from core.types import DraftTree, SamplingParams, Verdict

#: Streams of keyed randomness, apart from the Gumbel noise (stream 0) of ordinary sampling.
_ACCEPT, _RESIDUAL = 1, 2


def walk(tree: DraftTree, chosen: Seq[int]) -> Verdict:
    """Descend while a child carries the token that the target chose; the last choice is the bonus.

    `chosen[0]` follows the pending token, `chosen[1 + i]` node i.
    """
    path: list[int] = []
    node, first = -1, 0
    while True:
        want = chosen[node + 1]
        for child in range(first, len(tree.tokens)):
            if tree.parents[child] == node and tree.tokens[child] == want:
                break
        else:
            return Verdict(tuple(path), want)
        path.append(child)
        node, first = child, child + 1


Rule = Callable[[torch.Tensor, DraftTree, SamplingParams, int], Verdict]
"""(logits [1+N, V], tree, params, absolute position of the first token to decide) -> verdict"""


def exact(logits: torch.Tensor, tree: DraftTree, params: SamplingParams, position: int) -> Verdict:
    """Sample one token per node and descend on a match: the tokens that plain decoding would have written.

    For drafts without a distribution this accepts with exactly the target's probability, so no other lossless
    rule accepts more (`core.sampling`: noise keyed by position).
    """
    positions = [position, *(position + d for d in tree.depths())]
    chosen = perturbed_scores(logits, params, positions).argmax(dim=-1).tolist()
    return walk(tree, chosen)


def speculative_sampling(
    logits: torch.Tensor, tree: DraftTree, params: SamplingParams, position: int
) -> Verdict:
    """Accept with min(1, p/q), else resample the residual (Leviathan et al. 2211.17192, Chen et al. 2302.01318).

    On a tree the siblings are tried in order, each against the residual that the ones before it left, drawn
    without replacement (SpecInfer, 2305.09781; multi-step). Lossless in distribution, not token for token.
    A tree without `probs` counts as one-hot drafts.
    """
    target = probabilities(logits, params)
    path: list[int] = []
    node, depth = -1, 0
    while True:
        accepted, residual = _try_children(target[node + 1], tree, node, params, position + depth)
        if accepted is None:
            bonus = _draw(residual, params, position + depth)
            return Verdict(tuple(path), bonus)
        path.append(accepted)
        node, depth = accepted, depth + 1


def _try_children(
    residual: torch.Tensor, tree: DraftTree, node: int, params: SamplingParams, position: int
) -> tuple[int | None, torch.Tensor]:
    """The first child that passes its accept test, or None and what is left of the target's distribution."""
    tried: list[int] = []
    for child in (i for i, parent in enumerate(tree.parents) if parent == node):
        token = tree.tokens[child]
        draft = _draft_distribution(tree, child, tried, residual)
        ratio = float(residual[token] / draft[token].clamp_min(1e-30))
        if host_uniform(params.seed, position, _ACCEPT + 2 * len(tried)) < ratio:
            return child, residual
        left = (residual - draft).clamp_min(0)
        total = left.sum()
        # Rounding can leave nothing where p and q agree; the target itself is then the right residual.
        residual = left / total if total > 0 else residual
        tried.append(token)
    return None, residual


def _draft_distribution(tree: DraftTree, child: int, tried: list[int], like: torch.Tensor) -> torch.Tensor:
    """q of one child after the siblings before it were taken out; one-hot where the drafter gave none."""
    if tree.probs is None:
        draft = torch.zeros_like(like)
        draft[tree.tokens[child]] = 1
        return draft
    draft = tree.probs[child].to(like).clone()
    draft[tried] = 0
    return draft / draft.sum().clamp_min(1e-30)


def _draw(distribution: torch.Tensor, params: SamplingParams, position: int) -> int:
    """Inverse-transform sampling with a keyed uniform number."""
    if params.temperature == 0:
        return int(distribution.argmax())
    uniform = host_uniform(params.seed, position, 1 << 20 | _RESIDUAL)
    cumulative = distribution.to(torch.float64).cumsum(0)
    index = int(torch.searchsorted(cumulative, uniform * float(cumulative[-1]), right=True))
    return min(index, int(distribution.nonzero()[-1]))


def typical(
    logits: torch.Tensor,
    tree: DraftTree,
    params: SamplingParams,
    position: int,
    *,
    epsilon: float = 0.3,
    alpha: float = 0.09,
) -> Verdict:
    """LOSSY. Accept a node whose probability exceeds min(epsilon, alpha * exp(-entropy)) (Medusa, 2401.10774).

    The longest accepted path wins; the bonus is chosen by the exact rule.
    """
    probs = _plain_probabilities(logits, params)
    entropy = -(probs * probs.clamp_min(1e-20).log()).sum(-1)
    threshold = (alpha * (-entropy).exp()).clamp(max=epsilon)
    return _longest_accepted(logits, tree, params, position, lambda p, t: bool(probs[p, t] > threshold[p]))


def top_beta(
    logits: torch.Tensor,
    tree: DraftTree,
    params: SamplingParams,
    position: int,
    *,
    beta: int = 3,
    tolerance: float = 1.0,
) -> Verdict:
    """LOSSY. Accept a node among the target's top `beta` within `tolerance` of the best log-probability
    (blockwise decoding, 1811.03115, section 5; SpecDec, 2203.16487, section 3.2)."""
    log_probs = logits.to(torch.float32).log_softmax(-1)
    best = log_probs.topk(min(beta, logits.shape[-1]), dim=-1).values

    def accepts(place: int, token: int) -> bool:
        score = log_probs[place, token]
        return bool(score >= best[place, -1]) and bool(best[place, 0] - score <= tolerance)

    return _longest_accepted(logits, tree, params, position, accepts)


def _plain_probabilities(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    scale = params.temperature or 1.0
    return (logits.to(torch.float32) / scale).softmax(-1)


def _longest_accepted(
    logits: torch.Tensor,
    tree: DraftTree,
    params: SamplingParams,
    position: int,
    accepts: Callable[[int, int], bool],
) -> Verdict:
    """The deepest node whose whole path is accepted, and the exact rule's choice behind it."""
    depths = tree.depths()
    alive = [-1]
    for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
        if parent in alive and accepts(parent + 1, token):
            alive.append(node)
    end = max(alive, key=lambda node: depths[node] if node >= 0 else 0)
    path: list[int] = []
    node = end
    while node >= 0:
        path.append(node)
        node = tree.parents[node]
    scores = perturbed_scores(logits[end + 1][None], params, [position + len(path)])
    return Verdict(tuple(reversed(path)), int(scores.argmax()))


RULES: dict[str, Rule] = {
    "exact": exact,
    "speculative_sampling": speculative_sampling,
    "typical": typical,
    "top_beta": top_beta,
}

LOSSLESS = frozenset({"exact", "speculative_sampling"})
