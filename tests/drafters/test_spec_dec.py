"""The non-autoregressive drafter: one pass over a block of masks, none of which stays in the cache."""

from __future__ import annotations

import random
from collections.abc import Sequence as Seq

import pytest
import torch

from core import Engine, drafters
from core.budget import FixedBudget
from core.drafters.draft_slots import Place
from core.drafters.ranking import Ranking
from core.drafters.spec_dec import SpecDec
from tests.core.models import UNK, build, target_of, word_tokenizer
from tests.core.test_identity import GREEDY, KINDS, outcome, plain_outcome, requests, run_late
from tests.drafters.draft_models import relative_of


class Checked(SpecDec):
    """Compares each guess with a pass of the stock model over the text and the masks."""

    stock = None
    num_checked = 0

    def _guess(self, places: Seq[Place], sizes: Seq[int]) -> Ranking:
        ranking = super()._guess(places, sizes)
        assert self.stock is not None
        start = 0
        for place, size in zip(places, sizes, strict=True):
            row = place.row
            text = [*row.tokens, *[UNK] * (size - 1)]
            if self.stock.config.is_encoder_decoder:
                inputs = {
                    "input_ids": torch.tensor([row.prompt_ids]),
                    "decoder_input_ids": torch.tensor([text]),
                }
            else:
                inputs = {"input_ids": torch.tensor([text])}
            best = self.stock(**inputs).logits[0, -size:].argmax(-1).tolist()
            assert [tokens[0] for tokens in ranking.tokens[start : start + size]] == best
            start += size
            self.num_checked += 1
        return ranking


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_is_filled_in_behind_the_text_whatever_came_before(kind: str) -> None:
    asked = requests(GREEDY, 3)
    target = target_of(KINDS[kind])
    drafter = Checked(
        target,
        relative_of(target, error=0.0),
        mask_token_id=UNK,
        block_size=4,
        num_candidates=2,
    )
    drafter.stock = build(KINDS[kind])
    drafted = Engine(target, word_tokenizer(), drafter, max_rows=3, budget=FixedBudget(6))
    assert outcome(run_late(drafted, asked, random.Random(3))) == plain_outcome(KINDS[kind], "greedy")[:3]
    assert drafter.num_checked > 20
    # What is asked of the pending token is what the target will say: its twin's first guess is right.
    assert drafted.stats.accepted >= drafted.stats.target_calls // 2


def test_a_drafter_without_a_mask_is_refused() -> None:
    target = target_of("llama")
    with pytest.raises(ValueError, match="give mask_token_id= below 96"):
        drafters.create("spec_dec", target, model=relative_of(target))
    with pytest.raises(ValueError, match="must be at least 1"):
        drafters.create("spec_dec", target, model=relative_of(target), mask_token_id=3, block_size=0)
