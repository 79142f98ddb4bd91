"""Drafters that guess from the logits of the last pass: Jacobi, lookahead, token recycling."""

from __future__ import annotations

import pytest
import torch

from core.drafters.jacobi import Jacobi, improved
from core.drafters.lookahead import Lookahead
from core.drafters.token_recycling import TokenRecycling
from core.drafters.top_tokens import best_tokens, likely_tokens, top_tokens
from core.targets.base import PassOutput
from core.types import DraftTree
from tests.drafters.writing import VOCAB, cycle, passes, row_of, step


@pytest.mark.parametrize("sizes", [(0,), (5,), (3, 0, 6)])
def test_the_likeliest_tokens_are_those_of_topk(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    logits = torch.randn(len(sizes), 1 + max(sizes), 8192)
    trees = [DraftTree(list(range(n)), list(range(-1, n - 1))) for n in sizes]
    rows = torch.cat([logits[b, : 1 + n] for b, n in enumerate(sizes)])
    wanted = rows.topk(5)
    tokens, probs = top_tokens(trees, PassOutput.padded(logits), 5)
    assert tokens == wanted.indices.tolist()
    assert torch.allclose(torch.tensor(probs), wanted.values.softmax(-1), atol=1e-6)
    assert best_tokens(trees, PassOutput.padded(logits)) == rows.argmax(-1).tolist()


@pytest.mark.parametrize("vocab_size", [40, 1024])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_likely_tokens_are_the_top_tokens_without_the_tail(vocab_size: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    trees = [DraftTree([1, 2], [-1, 0]), DraftTree([1], [-1])]
    outputs = [
        PassOutput.padded((4 * torch.randn(2, 3, vocab_size, generator=generator)).to(dtype))
        for _ in range(2)
    ]
    outputs[1].logits[:, 7] += 99
    kept = [output.logits.clone() for output in outputs]
    found = list(likely_tokens([(trees, output) for output in outputs], 4, 0.05))
    wanted = []
    for output in outputs:
        for tokens, probs in zip(*top_tokens(trees, output, 4), strict=True):
            wanted.append(
                [(t, p) for i, (t, p) in enumerate(zip(tokens, probs, strict=True)) if not i or p >= 0.05]
            )
    assert [[token for token, _ in one] for one in found] == [[token for token, _ in one] for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert [p for _, p in one] == pytest.approx([p for _, p in other], rel=0.16)
    assert [one[0][0] for one in found[5:]] == [7] * 5
    assert all(torch.equal(output.logits, before) for output, before in zip(outputs, kept, strict=True))


def test_a_jacobi_step_moves_the_guesses_to_the_places_behind_what_was_written() -> None:
    # Places 1..4 held a b c d; the target would choose B behind the pending token, C D E F behind the guesses.
    guesses, best = [1, 2, 3, 4], [20, 30, 40, 50, 60]
    assert improved(guesses, [0, 1, 2, 3], best, 0) == [30, 40, 50, 60]
    assert improved(guesses, [0, 1, 2, 3], best, 2) == [50, 60]
    # Only two of the guesses were verified: the others stay where they were.
    assert improved(guesses, [0, 1], best, 0) == [30, 40, 4]
    assert improved(guesses, [0, 1], best, 1) == [40, 4]
    assert improved(guesses, [], best, 0) == [2, 3, 4]
    # More was accepted than this drafter guessed.
    assert improved(guesses, [0], best, 3) == []


def test_jacobi_guesses_settle_on_a_text_that_depends_on_places_alone() -> None:
    # What comes next depends on the place alone, so a guess is right once its place was seen.
    taken = passes(Jacobi(width=6), row_of([3]), 60, lambda tokens: 10 + len(tokens) % 50)
    assert taken < 60 / 1.5


def test_lookahead_pools_n_grams_that_the_target_wrote_itself() -> None:
    language = cycle(9)
    lookahead = Lookahead(window=5, ngram=3)
    row = row_of([3])
    lookahead.begin(row)
    for _ in range(25):
        step(lookahead, [row], 30, language)
    pool = lookahead._rows[row.id].pool
    found = [(first, *rest) for first, behind in pool.items() for rest in behind]
    assert len(found) >= 9
    for first, *rest in found:
        if first >= 10:
            assert rest == [language([first]), language([language([first])])]
    lookahead.end(row)
    assert not lookahead._rows


def test_lookahead_writes_a_repeating_text_in_fewer_passes() -> None:
    assert passes(Lookahead(), row_of([3]), 100, cycle(9), limit=30) < 60


def test_the_pool_is_bounded_and_may_read_the_prompt() -> None:
    lookahead = Lookahead(num_candidates=2, max_keys=5, reads_prompt=True, ngram=2)
    row = row_of([10, 11, 10, 12, 10, 13, *range(20, 60)])
    lookahead.begin(row)
    pool = lookahead._rows[row.id].pool
    assert len(pool) <= 5
    assert all(len(behind) <= 2 for behind in pool.values())
    assert passes(Lookahead(reads_prompt=True), row_of(list(range(10, 40))), 30, cycle(30), limit=30) < 15


def test_token_recycling_remembers_successors_of_rejected_nodes_too() -> None:
    recycling = TokenRecycling(VOCAB)
    first = passes(recycling, row_of([3]), 60, cycle(30))
    again = passes(recycling, row_of([3], id=1), 60, cycle(30))
    assert again < 60 / 2 <= first
    assert recycling.num_bytes == 4 * VOCAB * 8
    assert not recycling._pending


@pytest.mark.parametrize(
    "make", [lambda: Jacobi(0), lambda: Lookahead(ngram=1), lambda: TokenRecycling(9, 0)]
)
def test_options_out_of_range_are_refused(make: object) -> None:
    with pytest.raises(ValueError, match="at least"):
        make()  # type: ignore[operator]
