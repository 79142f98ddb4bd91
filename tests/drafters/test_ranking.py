"""What a draft model would choose, and whether asking it pays."""

from __future__ import annotations

import pytest
import torch

from core import SamplingParams
from core.drafters.pace import Pace
from core.drafters.ranking import Spot, draw, middle_of, rank, step_of
from core.sampling import perturbed_scores, probabilities
from tests.core.statistics import chi_square

KINDS = (
    SamplingParams(seed=1),
    SamplingParams(1.0, seed=2),
    SamplingParams(0.7, top_k=5, seed=3),
    SamplingParams(0.7, top_k=5, seed=4),
    SamplingParams(1.2, top_p=0.8, seed=5),
)


def test_the_first_choice_is_the_targets_own_where_the_logits_agree() -> None:
    torch.manual_seed(0)
    spots = [Spot(params, position) for params in KINDS for position in (7, 9)]
    logits = torch.randn(len(spots), 64) * 3
    ranking = rank(logits, spots, 4)
    for m, (params, position) in enumerate(spots):
        scores = perturbed_scores(logits[m][None], params, [position])[0]
        best = scores.topk(4)
        finite = int((best.values > -torch.inf).sum())
        assert ranking.tokens[m][:finite] == best.indices.tolist()[:finite]
        assert ranking.confidences[m][finite:] == [0.0] * (4 - finite)
        sure = scores.double().softmax(-1)[best.indices]
        assert ranking.confidences[m] == pytest.approx(sure.tolist(), abs=1e-5)


def test_draws_are_the_distributions_own_and_never_twice_the_same() -> None:
    logits = torch.tensor([[1.0, 0.2, -0.5, 0.8, -9.0]])
    params = SamplingParams(1.0, top_k=4, seed=11)
    spots = [Spot(params, position) for position in range(4000)]
    ranking = draw(logits.expand(4000, -1), spots, 2)
    assert ranking.probs is not None
    probs = probabilities(logits, params)[0]
    assert torch.allclose(ranking.probs[17], probs)
    pairs = torch.zeros(5, 5)
    for first, second in ranking.tokens:
        pairs[first, second] += 1
    # Drawn without replacement: p(a) * p(b) / (1 - p(a)).
    wanted = probs[:, None] * probs / (1 - probs[:, None])
    wanted.fill_diagonal_(0)
    assert chi_square(pairs, wanted) > 1e-3
    # Where only two tokens are left, there is no third to draw.
    few = draw(logits, [Spot(SamplingParams(1.0, top_k=2), 3)], 3)
    assert few.confidences[0] == [1.0, 1.0, 0.0]


def test_a_drafts_noise_is_not_the_targets() -> None:
    spots = [Spot(SamplingParams(1.0), position) for position in range(300)]
    flat = torch.zeros(300, 10)
    same = [
        a[0] == b[0] for a, b in zip(rank(flat, spots, 1).tokens, draw(flat, spots, 1).tokens, strict=True)
    ]
    assert 10 < sum(same) < 60


def test_confidences_fall_on_steps_around_themselves() -> None:
    for confidence in (0.0, 0.05, 0.31, 0.899, 0.9, 0.95, 0.99, 0.9999, 1.0):
        assert middle_of(step_of(confidence)) == pytest.approx(confidence, abs=0.06)
        assert 0 < middle_of(step_of(confidence)) < 1
    assert step_of(0.93) < step_of(0.98) < step_of(0.999)


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def paced(num_accepted: int, draft_seconds: float, num_steps: int, is_on: bool = True) -> Pace:
    """Steps of 1 second beside drafting, two draft passes each."""
    pace = Pace(torch.device("cpu"), is_on)
    clock = pace._clock = Clock()
    for _ in range(num_steps):
        pace.begin()
        for _ in range(2):
            clock.now += draft_seconds / 2
            pace.passed()
        clock.now += 1.0
        pace.finish(1 + num_accepted)
    return pace


def test_a_level_that_is_not_worth_its_pass_is_left_out() -> None:
    # A token costs (1 + 0.5) / 3 = 0.5 seconds here, a pass 0.25.
    pace = paced(num_accepted=2, draft_seconds=0.5, num_steps=20)
    assert pace.pays(0.6)
    assert not pace.pays(0.4)
    assert Pace(torch.device("cpu")).pays(0.01), "nothing is known yet"
    assert paced(num_accepted=2, draft_seconds=0.5, num_steps=20, is_on=False).pays(0.0)
