"""Every loss against torch's own formulas, on random distributions."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Categorical, kl_divergence
from torch.nn import functional as F

from core.alignment.divergences import DIVERGENCES, acceptance, jensen_shannon, total_variation
from core.sampling import host_uniform


def logits(seed: int, spread: float = 3.0) -> torch.Tensor:
    return torch.randn(40, 17, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * spread


TARGET, DRAFT = logits(0), logits(1)


def test_the_divergences_are_those_of_torch() -> None:
    p, q = Categorical(logits=TARGET), Categorical(logits=DRAFT)
    middle = Categorical(probs=(p.probs + q.probs) / 2)
    expected = {
        "forward_kl": kl_divergence(p, q),
        "reverse_kl": kl_divergence(q, p),
        "jensen_shannon": (kl_divergence(p, middle) + kl_divergence(q, middle)) / 2,
        "total_variation": torch.cdist(p.probs[:, None], q.probs[:, None], p=1).flatten() / 2,
    }
    assert expected.keys() == DIVERGENCES.keys()
    for name, divergence in DIVERGENCES.items():
        torch.testing.assert_close(divergence(TARGET, DRAFT), expected[name])
    by_kl_div = F.kl_div(DRAFT.log_softmax(-1), TARGET.log_softmax(-1), reduction="none", log_target=True)
    torch.testing.assert_close(DIVERGENCES["forward_kl"](TARGET, DRAFT), by_kl_div.sum(-1))


@pytest.mark.parametrize("beta", [0.1, 0.9])
def test_a_weighted_jensen_shannon_is_that_of_its_mixture(beta: float) -> None:
    p, q = Categorical(logits=TARGET), Categorical(logits=DRAFT)
    middle = Categorical(probs=beta * p.probs + (1 - beta) * q.probs)
    expected = beta * kl_divergence(p, middle) + (1 - beta) * kl_divergence(q, middle)
    torch.testing.assert_close(jensen_shannon(TARGET, DRAFT, beta), expected)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_gradients_reach_the_draft_only_and_are_right(name: str) -> None:
    divergence = DIVERGENCES[name]
    target, draft = logits(2, 1.0)[:4].requires_grad_(), logits(3, 1.0)[:4].requires_grad_()
    assert torch.autograd.gradcheck(lambda d: divergence(target.detach(), d), (draft,))
    divergence(target, draft).sum().backward()
    assert target.grad is None
    assert draft.grad is not None


@pytest.mark.parametrize("name", DIVERGENCES)
def test_equal_distributions_are_at_no_distance_and_certain_ones_at_a_finite_loss(name: str) -> None:
    divergence = DIVERGENCES[name]
    torch.testing.assert_close(divergence(TARGET, TARGET + 5.0), torch.zeros(40, dtype=torch.float64))
    assert (divergence(TARGET, DRAFT) > 0).all()
    sure = torch.full((2, 3), -200.0)
    sure[0, 0] = sure[1, 1] = 200.0
    assert divergence(sure[:1], sure[1:]).isfinite().all()
    # Whatever the model computed in, the sums are made in float32.
    assert divergence(TARGET.bfloat16(), DRAFT.bfloat16()).dtype == torch.float32


def test_acceptance_is_what_speculative_sampling_accepts() -> None:
    p, q = TARGET[0].softmax(-1), DRAFT[0].softmax(-1)
    drawn = torch.multinomial(q, 20_000, replacement=True, generator=torch.Generator().manual_seed(0))
    accepted = sum(host_uniform(1, i, 0) < float(p[x] / q[x]) for i, x in enumerate(drawn.tolist()))
    assert accepted / 20_000 == pytest.approx(float(acceptance(TARGET[:1], DRAFT[:1])), abs=0.015)
    torch.testing.assert_close(
        acceptance(TARGET, DRAFT) + total_variation(TARGET, DRAFT), torch.ones(40).double()
    )
