"""Edits come back minimal, rebuild the target exactly, and are counted as ERRANT counts them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from apps.gec.metrics.edits import Edit, EditScore, apply_edits, extract_edits, score_edits

words = str.split
WORDS = st.lists(
    st.sampled_from(["a", "the", "The", "cat", "cats", "can", "not", "cannot", ",", "."]), max_size=9
)


@given(WORDS, WORDS)
def test_applying_the_extracted_edits_gives_the_target(source: list[str], target: list[str]) -> None:
    assert apply_edits(source, extract_edits(source, target)) == target


@given(WORDS)
def test_equal_sentences_have_no_edits(source: list[str]) -> None:
    assert extract_edits(source, source) == []


def test_an_edit_covers_only_the_words_that_change() -> None:
    edits = extract_edits(words("She go to school yesterday ."), words("She went to the school yesterday ."))
    assert edits == [Edit(1, 2, "went"), Edit(3, 3, "the")]


def test_a_word_pairs_with_the_word_spelled_most_like_it() -> None:
    edits = extract_edits(words("I have recieved letter"), words("I have just received a letter"))
    assert edits == [Edit(2, 2, "just"), Edit(2, 3, "received"), Edit(3, 3, "a")]


def test_a_moved_word_border_is_one_edit() -> None:
    assert extract_edits(words("I can not go"), words("I cannot go")) == [Edit(1, 3, "cannot")]
    assert extract_edits(words("an other day"), words("another day")) == [Edit(0, 2, "another")]


def test_a_deleted_phrase_is_one_edit() -> None:
    assert extract_edits(words("a b c d e"), words("a e")) == [Edit(1, 4, "")]


SOURCE = words("he go home")
ONE, OTHER = words("he goes home"), words("he went home")


def test_counts_over_a_corpus_add_up() -> None:
    score = score_edits([SOURCE, SOURCE], [ONE, SOURCE], [[ONE], [ONE]])
    assert score == EditScore(1, 0, 1)
    assert (score.precision, score.recall) == (1.0, 0.5)
    assert score.f() == 1.25 * 0.5 / (0.25 + 0.5)


def test_each_sentence_takes_the_annotator_that_agrees_most() -> None:
    assert score_edits([SOURCE, SOURCE], [ONE, OTHER], [[ONE, OTHER], [ONE, OTHER]]) == EditScore(2, 0, 0)


def test_an_annotator_who_changed_nothing_excuses_silence_but_not_a_change() -> None:
    assert score_edits([SOURCE], [SOURCE], [[ONE, SOURCE]]) == EditScore(0, 0, 0)
    assert score_edits([SOURCE], [OTHER], [[SOURCE]]) == EditScore(0, 1, 0)


def test_doing_nothing_has_full_precision_and_no_f() -> None:
    score = score_edits([SOURCE], [SOURCE], [[ONE]])
    assert (score.precision, score.recall, score.f()) == (1.0, 0.0, 0.0)
