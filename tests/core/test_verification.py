"""The verification rules against what they promise: distributions by chi-square, accept sets by their formula."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from core import DraftTree, SamplingParams
from core.sampling import (
    best_tokens,
    filter_logits,
    gumbel_noise,
    noise_key,
    perturbed_scores,
    probabilities,
    top_gap,
)
from core.verification import LOSSLESS, RULES, exact, speculative_sampling, top_beta, typical
from tests.core.statistics import chi_square, independence
from tests.core.strategies import path_to, trees

CPU = torch.device("cpu")
#: The draws are seeded: a right rule passes every time.
SIGNIFICANCE = 1e-3
TRIALS = 3000

#: A bigram model over five tokens, and a draft model that is only roughly like it.
TARGET = torch.tensor(
    [
        [1.0, 0.2, -0.5, 0.8, -2.0],
        [0.0, 1.5, 0.3, -1.0, 0.5],
        [-0.7, 0.4, 1.2, 0.9, 0.1],
        [0.6, -0.2, 0.1, -0.4, 1.1],
        [0.3, 0.3, -1.5, 2.0, 0.0],
    ]
)
DRAFT = TARGET.flip(1) * 0.4 + TARGET * 0.7
PARAMS = {
    "plain": SamplingParams(temperature=1.0),
    "filtered": SamplingParams(temperature=0.7, top_p=0.85),
}


def draft_children(generator: torch.Generator, last: int, count: int) -> tuple[list[int], torch.Tensor]:
    """`count` different tokens in the order in which they are drawn without replacement, and their q."""
    draft = DRAFT[last].softmax(-1)
    return torch.multinomial(draft, count, generator=generator).tolist(), draft


def draw_tree(generator: torch.Generator, widths: tuple[int, ...], first: int) -> DraftTree:
    """Level by level; every node of a level gets the same number of children."""
    tokens: list[int] = []
    parents: list[int] = []
    probs: list[torch.Tensor] = []
    level = [(-1, first)]
    for width in widths:
        below = []
        for node, last in level:
            drawn, draft = draft_children(generator, last, width)
            for token in drawn:
                below.append((len(tokens), token))
                tokens.append(token)
                parents.append(node)
                probs.append(draft)
        level = below
    return DraftTree(tokens, parents, None, probs)


def bigram_logits(tree: DraftTree, first: int) -> torch.Tensor:
    return TARGET[[first, *tree.tokens]]


def write_two(seed: int, tree: DraftTree, params: SamplingParams) -> tuple[int, int, int]:
    """Two tokens behind token 0 by speculative sampling, and how many drafts were accepted."""
    own = SamplingParams(temperature=params.temperature, top_p=params.top_p, seed=seed)
    verdict = speculative_sampling(bigram_logits(tree, 0), tree, own, 7)
    written = [*(tree.tokens[node] for node in verdict.path), verdict.bonus]
    if len(written) == 1:
        again = speculative_sampling(TARGET[written[-1]][None], DraftTree(), own, 8)
        written.append(again.bonus)
    return written[0], written[1], len(verdict.path)


@pytest.mark.parametrize("sampling", PARAMS)
@pytest.mark.parametrize("widths", [(1, 1, 1), (2,), (3,), (2, 2), (3, 2)], ids=str)
def test_speculative_sampling_writes_the_distribution_of_the_target(
    widths: tuple[int, ...], sampling: str
) -> None:
    params = PARAMS[sampling]
    generator = torch.Generator().manual_seed(1)
    pairs = torch.zeros(5, 5)
    accepted = 0
    for seed in range(TRIALS):
        first, second, length = write_two(seed, draw_tree(generator, widths, 0), params)
        pairs[first, second] += 1
        accepted += length
    target = probabilities(TARGET, params)
    assert chi_square(pairs, target[0][:, None] * target) > SIGNIFICANCE
    assert accepted > 0.5 * TRIALS


@pytest.mark.parametrize("widths", [(1,), (2,), (3,)], ids=str)
def test_drafts_without_a_distribution_count_as_certain(widths: tuple[int, ...]) -> None:
    counts = torch.zeros(5)
    tree = DraftTree(list(range(widths[0])), [-1] * widths[0])
    for seed in range(TRIALS):
        counts[write_two(seed, tree, PARAMS["plain"])[0]] += 1
    assert chi_square(counts, TARGET[0].softmax(-1)) > SIGNIFICANCE


def test_a_chain_is_accepted_as_often_as_the_two_distributions_overlap() -> None:
    generator = torch.Generator().manual_seed(2)
    hits = sum(write_two(seed, draw_tree(generator, (1,), 0), PARAMS["plain"])[2] for seed in range(TRIALS))
    overlap = float(torch.minimum(TARGET[0].softmax(-1), DRAFT[0].softmax(-1)).sum())
    assert (
        chi_square(torch.tensor([hits, TRIALS - hits]), torch.tensor([overlap, 1 - overlap])) > SIGNIFICANCE
    )


def test_at_temperature_zero_speculative_sampling_is_greedy() -> None:
    generator = torch.Generator().manual_seed(3)
    params = SamplingParams()
    for seed in range(50):
        tree = draw_tree(generator, (3, 2, 2), 0)
        own = SamplingParams(seed=seed)
        assert speculative_sampling(bigram_logits(tree, 0), tree, own, 4) == exact(
            bigram_logits(tree, 0), tree, params, 4
        )


def exact_counts(params: SamplingParams, logits: torch.Tensor, num: int = 20000) -> torch.Tensor:
    scores = perturbed_scores(logits.expand(num, -1), params, range(num))
    return torch.bincount(scores.argmax(-1), minlength=logits.shape[-1])


@pytest.mark.parametrize("row", range(5))
def test_exact_sampling_over_positions_has_the_frequencies_of_the_softmax(row: int) -> None:
    params = SamplingParams(temperature=1.3, seed=row)
    assert chi_square(exact_counts(params, TARGET[row]), (TARGET[row] / 1.3).softmax(-1)) > SIGNIFICANCE


def test_exact_sampling_over_seeds_has_the_frequencies_of_the_softmax() -> None:
    noise = gumbel_noise([noise_key(seed, 11) for seed in range(20000)], 5, CPU)
    counts = torch.bincount((TARGET[0] + noise).argmax(-1), minlength=5)
    assert chi_square(counts, TARGET[0].softmax(-1)) > SIGNIFICANCE


def test_exact_sampling_over_a_large_vocabulary_has_the_frequencies_of_the_softmax() -> None:
    logits = torch.randn(40, generator=torch.Generator().manual_seed(0)).repeat(25)
    counts = exact_counts(SamplingParams(temperature=1.0), logits, num=5000)
    # Tokens of equal probability pooled, by place in the period and by period.
    assert chi_square(counts.view(25, 40).sum(0), logits[:40].softmax(-1)) > SIGNIFICANCE
    assert chi_square(counts.view(25, 40).sum(1), torch.full((25,), 0.04)) > SIGNIFICANCE


@pytest.mark.parametrize(
    "keys",
    [
        lambda i: (noise_key(i, 5), noise_key(i, 6)),
        lambda i: (noise_key(i, 5), noise_key(i + 1, 5)),
        lambda i: (noise_key(3, i), noise_key(4, i)),
        lambda i: (noise_key(i, i), noise_key(i, i + 64)),
    ],
    ids=["neighbouring positions", "neighbouring seeds", "two seeds", "diagonal"],
)
def test_noise_of_different_positions_and_seeds_is_independent(
    keys: Callable[[int], tuple[tuple[int, int], tuple[int, int]]],
) -> None:
    pairs = [keys(i) for i in range(20000)]
    first, second = (gumbel_noise([pair[side] for pair in pairs], 5, CPU).argmax(-1) for side in (0, 1))
    table = torch.bincount(first * 5 + second, minlength=25).view(5, 5)
    assert independence(table) > SIGNIFICANCE


def test_noise_of_different_tokens_is_independent() -> None:
    noise = gumbel_noise([noise_key(0, p) for p in range(20000)], 9, CPU)
    quarter = (torch.exp(-torch.exp(-noise)) * 4).long()
    for token in range(1, 9):
        table = torch.bincount(quarter[:, 0] * 4 + quarter[:, token], minlength=16).view(4, 4)
        assert independence(table) > SIGNIFICANCE


def test_equal_keys_give_equal_noise_and_noise_is_finite() -> None:
    keys = [noise_key(1, 2), noise_key(-5, 1 << 40), noise_key(1, 2)]
    noise = gumbel_noise(keys, 1000, CPU)
    assert torch.equal(noise[0], noise[2])
    assert torch.equal(noise, gumbel_noise(keys, 1000, CPU))
    assert torch.equal(noise[:, :10], gumbel_noise(keys, 10, CPU))
    assert not torch.equal(noise[0], noise[1])
    assert noise.isfinite().all()


def test_shared_noise_couples_two_models_as_tightly_as_promised() -> None:
    """Gumbel coupling agrees at least (1 - TV) / (1 + TV) of the time."""
    noise = gumbel_noise([noise_key(0, p) for p in range(20000)], 5, CPU)
    agreed = float(((TARGET[0] + noise).argmax(-1) == (DRAFT[0] + noise).argmax(-1)).float().mean())
    distance = float((TARGET[0].softmax(-1) - DRAFT[0].softmax(-1)).abs().sum()) / 2
    assert agreed > (1 - distance) / (1 + distance) - 0.01


@given(
    seed=st.integers(0, 10**6),
    temperature=st.floats(0.1, 3.0),
    top_k=st.integers(0, 25),
    top_p=st.one_of(st.just(1.0), st.floats(0.05, 0.99)),
    min_p=st.one_of(st.just(0.0), st.floats(0.01, 0.9)),
)
@settings(deadline=None)
def test_the_filters_are_those_of_transformers(
    seed: int, temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    logits = torch.randn(3, 20, generator=torch.Generator().manual_seed(seed)) * 3
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        warpers.append(TopPLogitsWarper(top_p))
    if min_p:
        warpers.append(MinPLogitsWarper(min_p))
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    torch.testing.assert_close(filter_logits(logits, params), warpers(None, logits))


def test_the_best_token_of_blocks_is_the_first_of_the_best() -> None:
    generator = torch.Generator().manual_seed(0)
    for vocab_size in (5, 128, 1024, 1030):
        scores = torch.randint(0, 6, (7, 3, vocab_size), generator=generator).float()
        expected = (scores == scores.amax(-1, keepdim=True)).long().argmax(-1)
        assert torch.equal(best_tokens(scores), expected)
    only = torch.full((1, 256), -torch.inf)
    only[0, 200] = 3.0
    assert best_tokens(only).item() == 200
    assert top_gap(only).item() == math.inf


def random_logits(seed: int, num: int, scale: float = 2.0) -> torch.Tensor:
    return torch.randn(num, 6, generator=torch.Generator().manual_seed(seed)) * scale


def best_paths(tree: DraftTree, accepted: Callable[[int, int], bool]) -> int:
    """Depth of the deepest node whose whole path is accepted, by trying every node."""
    deepest = 0
    for node in range(len(tree)):
        path = path_to(tree, node)
        if all(accepted(tree.parents[i] + 1, tree.tokens[i]) for i in path):
            deepest = max(deepest, len(path))
    return deepest


SMALL = trees(words=st.integers(0, 5))


@given(tree=SMALL, seed=st.integers(0, 999), temperature=st.sampled_from([0.0, 0.5, 1.0]))
@settings(deadline=None)
def test_typical_accepts_what_its_formula_says(tree: DraftTree, seed: int, temperature: float) -> None:
    logits = random_logits(seed, 1 + len(tree))
    params = SamplingParams(temperature=temperature, seed=seed)
    verdict = typical(logits, tree, params, 9)
    probs = (logits / (temperature or 1.0)).softmax(-1)

    def accepted(place: int, token: int) -> bool:
        entropy = float(torch.distributions.Categorical(probs[place]).entropy())
        return float(probs[place, token]) > min(0.3, 0.09 * math.exp(-entropy))

    assert len(verdict.path) == best_paths(tree, accepted)
    assert all(accepted(tree.parents[i] + 1, tree.tokens[i]) for i in verdict.path)
    end = verdict.path[-1] if verdict.path else -1
    assert verdict.path == path_to(tree, end)
    alone = exact(logits[end + 1][None], DraftTree(), params, 9 + len(verdict.path))
    assert verdict.bonus == alone.bonus


@given(tree=SMALL, seed=st.integers(0, 999), beta=st.integers(1, 7), tolerance=st.floats(0.1, 4.0))
@settings(deadline=None)
def test_top_beta_accepts_what_its_formula_says(
    tree: DraftTree, seed: int, beta: int, tolerance: float
) -> None:
    logits = random_logits(seed, 1 + len(tree))
    verdict = top_beta(logits, tree, SamplingParams(), 9, beta=beta, tolerance=tolerance)
    log_probs = logits.log_softmax(-1)

    def accepted(place: int, token: int) -> bool:
        better = int((log_probs[place] > log_probs[place, token]).sum())
        return better < beta and bool(log_probs[place].max() - log_probs[place, token] <= tolerance)

    assert len(verdict.path) == best_paths(tree, accepted)
    assert all(accepted(tree.parents[i] + 1, tree.tokens[i]) for i in verdict.path)


@given(tree=SMALL, seed=st.integers(0, 999))
@settings(deadline=None)
def test_the_lossy_rules_are_greedy_where_the_target_is_certain(tree: DraftTree, seed: int) -> None:
    certain = torch.full((1 + len(tree), 6), -40.0)
    certain.scatter_(1, random_logits(seed, 1 + len(tree)).argmax(-1, keepdim=True), 40.0)
    expected = exact(certain, tree, SamplingParams(), 3)
    # Among twins the rules may take either; the tokens are the same.
    for rule in (typical, top_beta):
        verdict = rule(certain, tree, SamplingParams(), 3)
        written = [tree.tokens[node] for node in verdict.path]
        assert len(written) >= len(expected.path)
        assert [tree.tokens[node] for node in expected.path] == written[: len(expected.path)]


@given(tree=SMALL, seed=st.integers(0, 999))
@settings(deadline=None)
def test_top_beta_of_one_is_greedy(tree: DraftTree, seed: int) -> None:
    logits = random_logits(seed, 1 + len(tree))
    assert len(top_beta(logits, tree, SamplingParams(), 3, beta=1).path) >= len(
        exact(logits, tree, SamplingParams(), 3).path
    )


@given(tree=SMALL, seed=st.integers(0, 999), position=st.integers(1, 50))
@settings(deadline=None)
def test_the_exact_rule_writes_what_one_token_at_a_time_would_have_written(
    tree: DraftTree, seed: int, position: int
) -> None:
    logits = random_logits(seed, 1 + len(tree))
    params = SamplingParams(temperature=0.9, top_p=0.9, seed=seed)
    verdict = exact(logits, tree, params, position)
    node = -1
    for depth in range(len(verdict.path) + 1):
        chosen = exact(logits[node + 1][None], DraftTree(), params, position + depth).bonus
        if depth < len(verdict.path):
            node = verdict.path[depth]
            assert tree.tokens[node] == chosen
        else:
            assert verdict.bonus == chosen


def test_a_lossy_rule_says_so() -> None:
    assert {"exact", "speculative_sampling"} == LOSSLESS
    for name, rule in RULES.items():
        assert ("LOSSY" in inspect.getdoc(rule)) == (name not in LOSSLESS)
