"""Prompts, follow-up questions, scores: what is made of words alone."""

from __future__ import annotations

import pytest

from apps.rag import prompts, scoring
from apps.rag.follow_up import content_words, is_follow_up, standalone
from apps.rag.prompts import Passage


def test_passages_are_numbered_titled_and_free_of_wrapped_lines() -> None:
    passages = [
        Passage("Guide:  Limits", "One sentence\nthat is wrapped.\n\n- an item\n- another"),
        Passage("", "Two."),
    ]
    assert prompts.user_turn("How\n many?", passages) == (
        "[1] Guide: Limits\nOne sentence that is wrapped.\n- an item\n- another\n\n[2]\nTwo.\n\nQuestion: How many?"
    )


def test_code_keeps_its_lines() -> None:
    code = "Run this:\n\n```bash\npip install x\n\n  indented\n```\nand then\nthat."
    assert prompts.compact(code) == "Run this:\n```bash\npip install x\n  indented\n```\nand then that."


def test_a_quoted_answer_cites_its_passage_and_impossible_numbers_are_left_out() -> None:
    answer = prompts.quoted("The limit is five.", 2) + " And more. [1][2] [7] [0]"
    assert prompts.citations(answer, 3) == [2, 1]


@pytest.mark.parametrize(
    ("answer", "abstains"),
    [
        (prompts.ABSTENTION, True),
        ("nothing in the documents  answers this", True),
        ("The documents say so. [1]", False),
        ("", False),
    ],
)
def test_an_abstention_is_known_by_its_words(answer: str, abstains: bool) -> None:
    assert prompts.is_abstention(answer) is abstains


@pytest.mark.parametrize(
    ("question", "follows"),
    [
        ("How does it decide?", True),
        ("And in batches?", True),
        ("What about the GPU version of torch?", True),
        ("Why?", True),
        ("What is the correction memory?", False),
        ("How many rows does the engine run?", False),
    ],
)
def test_follow_up_questions_are_told_by_their_words(question: str, follows: bool) -> None:
    assert is_follow_up(question) is follows


def test_a_follow_up_carries_the_words_of_the_question_before() -> None:
    earlier = [("What is the draft budget?", "The budget decides. [1]")]
    assert standalone("How does it decide?", earlier, "words") == "How does it decide? (draft budget)"
    assert standalone("How does it decide?", earlier, "off") == "How does it decide?"
    assert standalone("How does it decide?", [], "words") == "How does it decide?"
    assert standalone("Which models are tested?", earlier, "words") == "Which models are tested?"


def test_carried_words_are_not_repeated_and_stay_few() -> None:
    long = " ".join(f"word{i}" for i in range(40))
    asked = standalone("Why is that word3 so?", [(long, "")], "words")
    assert asked.count("word3 ") == 1
    assert len(content_words(asked)) <= 9


@pytest.mark.parametrize(
    ("answer", "golds", "exact", "f1", "contained"),
    [
        ("The Eiffel Tower.", ["eiffel tower"], True, 1.0, True),
        ("It is in Paris, France", ["Paris"], False, 1 / 3, True),
        ("It is in Parisian hands", ["Paris"], False, 0.0, False),
        ("", ["Paris"], False, 0.0, False),
        ("a", ["the"], True, 1.0, False),
        ("one two", ["nine", "two three"], False, 0.5, False),
    ],
)
def test_answers_score_as_squad_scores_them(
    answer: str, golds: list[str], exact: bool, f1: float, contained: bool
) -> None:
    assert scoring.exact_match(answer, golds) is exact
    assert scoring.f1(answer, golds) == pytest.approx(f1)
    assert scoring.contains(answer, golds) is contained


def test_recall_and_reciprocal_rank_count_the_first_gold_passage() -> None:
    ranks = [1, 3, None, 2]
    assert [scoring.recall_at(ranks, k) for k in (1, 2, 3)] == [0.25, 0.5, 0.75]
    assert scoring.mean_reciprocal_rank(ranks) == pytest.approx((1 + 1 / 3 + 1 / 2) / 4)
    assert scoring.without_citations("So it is. [1] [12]") == "So it is."
