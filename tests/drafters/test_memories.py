"""What outlives a request: earlier answers, the edits made, and how often guesses came true."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.drafters.calibration import Calibration
from core.drafters.copy import Copy
from core.drafters.correction_memory import MAX_EDIT_TOKENS, CorrectionMemory
from core.drafters.shared_answers import SharedAnswers
from core.drafters.suffix_trie import SuffixTrie
from tests.drafters.copying import TOKENS, passes
from tests.drafters.writing import row_of


@given(
    texts=st.lists(st.lists(st.lists(TOKENS, max_size=8), max_size=4), min_size=1, max_size=3),
    suffix=st.lists(TOKENS, min_size=1, max_size=6),
)
@settings(deadline=None)
def test_the_trie_counts_every_follower_of_every_suffix(
    texts: list[list[list[int]]], suffix: list[int]
) -> None:
    trie = SuffixTrie(max_length=4)
    for parts in texts:
        trie.add([])
        for part in parts:
            trie.extend(part)
            for context in trie.contexts(suffix):
                context.followers(trie.text)
    whole = [[token for part in parts for token in part] for parts in texts]
    found = trie.contexts(suffix)
    for length in range(1, min(4, len(suffix)) + 1):
        expected: dict[int, int] = {}
        for text in whole:
            for end in range(length, len(text)):
                if text[end - length : end] == suffix[-length:]:
                    expected[text[end]] = expected.get(text[end], 0) + 1
        counted = found[length - 1].followers(trie.text) if length <= len(found) else {}
        assert counted == expected
    assert [context.length for context in found] == list(range(1, len(found) + 1))


def test_earlier_answers_are_bounded_and_the_oldest_leave_first() -> None:
    answers = SharedAnswers(max_tokens=40)
    for i in range(50):
        answers.add([5, 100 + i, 6, 7])
        assert len(answers) <= 40
    (context,) = answers.trie.contexts([5])[:1]
    followers = context.followers(answers.trie.text)
    assert 149 in followers
    assert 100 not in followers
    answers.add(list(range(1000)))
    assert len(answers) == 40
    with pytest.raises(ValueError, match="max_tokens=0"):
        SharedAnswers(0)


def test_what_was_answered_before_is_drafted_again_where_answers_are_kept() -> None:
    kept, forgetful = (Copy(is_aligned=False, answers=a) for a in (SharedAnswers(), None))
    said = list(range(300, 340))
    for copy, is_fewer in ((kept, True), (forgetful, False)):
        first = passes(copy, row_of([7]), said)
        again = passes(copy, row_of([7], id=1), said)
        assert (again < first // 2) is is_fewer


@given(
    before=st.integers(1, 5),
    removed=st.integers(0, MAX_EDIT_TOKENS),
    added=st.integers(0, MAX_EDIT_TOKENS),
    behind=st.integers(1, 5),
)
def test_the_memory_recalls_an_edit_at_its_place(before: int, removed: int, added: int, behind: int) -> None:
    assume(removed or added)
    source = list(range(100, 100 + before + removed + behind))
    new = list(range(500, 500 + added))
    memory = CorrectionMemory()
    memory.learn(source, [*source[:before], *new, *source[before + removed :]])
    elsewhere = [7, 8, *source[before - 1 : before + removed + 1], 9]
    assert memory.recall(elsewhere, 3) == (tuple(new), 3 + removed)
    for position in (0, 1, 2):
        assert memory.recall(elsewhere, position) is None


def test_the_last_edit_of_the_same_tokens_counts() -> None:
    memory = CorrectionMemory()
    memory.learn([1, 5, 9], [1, 6, 9])
    memory.learn([1, 5, 9], [1, 7, 9])
    assert memory.recall([1, 5, 9], 1) == ((7,), 2)


def test_an_edit_too_long_to_come_back_is_not_kept() -> None:
    memory = CorrectionMemory()
    memory.learn([1, 2], [1, *range(50, 50 + MAX_EDIT_TOKENS + 1), 2])
    assert len(memory) == 0


def test_the_memory_is_bounded_and_forgets_the_oldest() -> None:
    memory = CorrectionMemory(max_entries=10)
    for i in range(100):
        memory.learn([1, 1000 + i, 2], [1, 2000 + i, 2])
        assert len(memory) <= 10
    assert memory.recall([1, 1089, 2], 1) is None
    assert memory.recall([1, 1090, 2], 1) == ((2090,), 2)


def test_an_estimate_starts_at_the_prior_and_ends_at_the_frequency() -> None:
    calibration = Calibration(lambda key: 0.9 if key == "often" else 0.1)
    assert (calibration.estimate("often"), calibration.estimate("seldom")) == (0.9, 0.1)
    for i in range(10_000):
        calibration.record("often", i % 4 == 0)
    assert calibration.estimate("often") == pytest.approx(0.25, abs=0.02)
    assert calibration.estimate("seldom") == 0.1


def test_an_estimate_follows_a_change_of_the_text() -> None:
    calibration = Calibration(lambda key: 0.5, horizon=400)
    for _ in range(5000):
        calibration.record("key", accepted=True)
    for _ in range(1000):
        calibration.record("key", accepted=False)
    assert calibration.estimate("key") < 0.3


@given(st.lists(st.booleans(), max_size=60))
def test_an_estimate_stays_a_probability(outcomes: list[bool]) -> None:
    calibration = Calibration(lambda key: 0.97, horizon=20)
    for accepted in outcomes:
        calibration.record("key", accepted)
        assert 0 < calibration.estimate("key") < 1
