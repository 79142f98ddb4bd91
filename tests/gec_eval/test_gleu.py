"""GLEU against a hand-computed case and against the known score of the uncorrected JFLEG dev set."""

from __future__ import annotations

from math import exp, isclose, log

import pytest

from apps.gec.metrics.corpora import DEFAULT_FOLDER, MissingSet, load_set
from apps.gec.metrics.gleu import gleu
from apps.gec.metrics.quality import assess

words = str.split
SOURCE = words("she go to the school")
REFERENCE = words("she goes to the school")


def test_a_perfect_correction_scores_a_hundred() -> None:
    assert isclose(gleu([SOURCE], [REFERENCE], [[REFERENCE]]), 100.0)


def test_a_hand_computed_sentence() -> None:
    # One word too many; no n-gram is left from the source alone. Matches per order 5/6, 4/5, 3/4, 2/3.
    hypothesis = [*REFERENCE, "today"]
    expected = exp((log(5 / 6) + log(4 / 5) + log(3 / 4) + log(2 / 3)) / 4)
    assert isclose(gleu([SOURCE], [hypothesis], [[REFERENCE]]), 100 * expected)


def test_an_error_left_standing_costs_more_than_a_miss() -> None:
    source, reference = words("a b c d e f x"), words("a b c d e f y")
    left = gleu([source], [source], [[reference]])
    changed = gleu([source], [words("a b c d e f z")], [[reference]])
    # Unigrams 6 matched less 1 kept (5/7), bigrams 5 - 1 of 6, and so on; the other loses only the match.
    expected = exp((log(5 / 7) + log(4 / 6) + log(3 / 5) + log(2 / 4)) / 4)
    assert isclose(left, 100 * expected)
    assert changed > left


def test_a_short_output_pays_the_brevity_penalty() -> None:
    reference = words("a b c d e f")
    score = gleu([reference], [reference[:5]], [[reference]])
    assert isclose(score, 100 * exp(1 - 6 / 5))


def test_one_matching_reference_of_two_scores_between_none_and_all() -> None:
    other = words("they went to a big house")
    assert 0 < gleu([SOURCE], [REFERENCE], [[REFERENCE, other]]) < 100


def test_lists_that_do_not_line_up_are_refused() -> None:
    with pytest.raises(ValueError, match="one of each per sentence"):
        gleu([SOURCE], [], [])
    with pytest.raises(ValueError, match="give every sentence as many"):
        gleu([SOURCE, SOURCE], [SOURCE, SOURCE], [[REFERENCE], [REFERENCE, REFERENCE]])


def test_the_uncorrected_jfleg_dev_set_scores_38_2() -> None:
    try:
        corpus = load_set("jfleg")
    except MissingSet as missing:
        pytest.skip(f"JFLEG is not under {DEFAULT_FOLDER}: {missing}")
    tokens = [corpus.tokenize(sentence) for sentence in corpus.sentences]
    assert round(gleu(tokens, tokens, corpus.references), 2) == 38.21
    assert assess(corpus.head(50), corpus.sentences[:50]).changed == 0
