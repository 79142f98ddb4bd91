"""How far a draft distribution is from the target's, per token, as a loss that draft models are trained on.

Knows logits. `target` and `draft` are logits [M, V]; a divergence is [M], 0 where both distributions agree. Gradients
flow to the draft. Which one serves best depends on task and decoding (DistillSpec, Zhou et al. 2310.08461, section 4).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Divergence = Callable[[Tensor, Tensor], Tensor]


def forward_kl(target: Tensor, draft: Tensor) -> Tensor:
    """KL(target || draft): the draft must give mass to all that the target says (Hinton et al. 1503.02531)."""
    p, log_p, log_q = _both(target, draft)
    return (p * (log_p - log_q)).sum(-1)


def reverse_kl(target: Tensor, draft: Tensor) -> Tensor:
    """KL(draft || target): the draft must say nothing that the target would not."""
    _, log_p, log_q = _both(target, draft)
    return (log_q.exp() * (log_q - log_p)).sum(-1)


def jensen_shannon(target: Tensor, draft: Tensor, beta: float = 0.5) -> Tensor:
    """beta KL(target || m) + (1 - beta) KL(draft || m), where m = beta target + (1 - beta) draft (generalised as by
    Agarwal et al. 2306.13649)."""
    p, log_p, log_q = _both(target, draft)
    q = log_q.exp()
    log_m = (beta * p + (1 - beta) * q).clamp_min(torch.finfo(p.dtype).tiny).log()
    return beta * (p * (log_p - log_m)).sum(-1) + (1 - beta) * (q * (log_q - log_m)).sum(-1)


def total_variation(target: Tensor, draft: Tensor) -> Tensor:
    """Half the sum of |target - draft|: one minus the share of tokens that speculative sampling accepts."""
    p, _, log_q = _both(target, draft)
    return 0.5 * (p - log_q.exp()).abs().sum(-1)


def acceptance(target: Tensor, draft: Tensor) -> Tensor:
    """The probability [M] that speculative sampling accepts the draft's token: the sum of min(target, draft)
    (Leviathan et al. 2211.17192, corollary 3.6)."""
    return 1.0 - total_variation(target, draft)


def _both(target: Tensor, draft: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The target's probabilities and logarithms, the draft's logarithms, in float32 at least."""
    wide = torch.promote_types(draft.dtype, torch.float32)
    log_p = target.detach().to(wide).log_softmax(-1)
    return log_p.exp(), log_p, draft.to(wide).log_softmax(-1)


DIVERGENCES: dict[str, Divergence] = {
    "forward_kl": forward_kl,
    "reverse_kl": reverse_kl,
    "jensen_shannon": jensen_shannon,
    "total_variation": total_variation,
}
