"""A draft model with other tokens: texts go back and forth without loss, and good drafts arrive."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from core import Engine, drafters
from core.budget import FixedBudget
from core.drafters.translation import Splitter, encode, text_behind, tokens_behind
from tests.core.models import byte_tokenizer, target_of, word_tokenizer
from tests.core.test_identity import KINDS, SAMPLING, outcome, plain_outcome, requests, run_late
from tests.drafters.draft_models import relative_of, shuffled_tokenizer, stranger_to

WORDS = ["the", "and", "then", "weiß", "nothing", "ants", "日本", "🙂", "a", "other,"]


def sentences(num_words: int, seed: int) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(num_words))


@pytest.mark.parametrize("seed", range(3))
def test_a_growing_text_splits_as_the_whole_does(seed: int) -> None:
    tokenizer = byte_tokenizer()
    text = sentences(80, seed)
    splitter = Splitter(tokenizer)
    rng = random.Random(seed)
    end = 0
    while end < len(text):
        end = min(end + rng.randint(1, 9), len(text))
        assert splitter.split(text[:end]) == encode(tokenizer, text[:end])
    assert splitter._num_settled > len(text) // 2


def test_what_follows_is_split_as_the_tokenizer_would_have_written_it() -> None:
    tokenizer = byte_tokenizer()
    ids = encode(tokenizer, "the ants and the")
    for cut in range(len(ids) + 1):
        text = text_behind(tokenizer, ids[:cut], ids[cut:])
        assert tokens_behind(tokenizer, ids[:cut], text) == ids[cut:]
    # Written as t + h, which the tokenizer never does: what follows is split on its own.
    before = [*encode(tokenizer, "t"), *encode(tokenizer, "h")]
    assert tokens_behind(tokenizer, before, "e ants") == encode(tokenizer, "e ants")
    # Half a character is no text yet.
    smile = encode(tokenizer, "🙂")
    assert text_behind(tokenizer, ids, smile[:2]) == ""
    assert text_behind(tokenizer, ids, smile) == "🙂"


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_model_that_numbers_tokens_differently_is_right_all_the_same(kind: str) -> None:
    asked = requests(SAMPLING["greedy"], 5)
    target = target_of(KINDS[kind])
    options = {"model": stranger_to(target, error=0.0), "tokenizer": shuffled_tokenizer(), "is_paced": False}
    drafted = Engine(target, word_tokenizer(), "text_draft_model", drafter_options=options, max_rows=5)
    drafted.budget = FixedBudget(4)
    expected = plain_outcome(KINDS[kind], "greedy")
    for completions in (drafted.generate(asked), run_late(drafted, asked, random.Random(3))):
        assert outcome(completions) == expected
        for completion in completions:
            assert completion.stats.accepted == completion.stats.drafted
            assert completion.stats.target_calls <= -(-completion.stats.emitted // 5) + 4


def test_another_vocabulary_is_noticed_and_the_remedy_named(tmp_path: Path) -> None:
    target = target_of("llama")
    stranger = stranger_to(target)
    stranger.model.save_pretrained(tmp_path)  # type: ignore[attr-defined]
    shuffled_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="use the drafter 'text_draft_model'"):
        Engine(target, word_tokenizer(), "draft_model", drafter_options={"model": tmp_path})
    Engine(target, word_tokenizer(), "text_draft_model", drafter_options={"model": str(tmp_path)})
    Engine(target, shuffled_tokenizer(), "draft_model", drafter_options={"model": tmp_path})
    with pytest.raises(ValueError, match="needs the draft model's tokenizer"):
        drafters.create("text_draft_model", target, model=relative_of(target))
