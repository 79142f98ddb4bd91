"""The held questions and their scores."""

from __future__ import annotations

from pathlib import Path

from apps.rag.prompts import ABSTENTION, Passage
from apps.rag.training.evaluate import score
from apps.rag.training.held_questions import HeldQuestion, held_questions
from apps.rag.training.qa_sets import is_held, load_qa
from apps.rag.training.word_count import answers_by_words
from tests.rag_training.library import fake_data


def test_the_held_split_is_never_trained_on(tmp_path: Path) -> None:
    """A document is either held or not, by its title alone; both halves together are all."""
    data = fake_data(tmp_path)
    held, rest = load_qa(data, True)["squad2_half"], load_qa(data, False)["squad2_half"]
    assert {d.title for d in held}.isdisjoint(d.title for d in rest)
    assert len(held) + len(rest) == 60
    assert held
    assert is_held("Warsaw!") == is_held("warsaw")


def test_held_questions_have_the_gold_passage_or_not(tmp_path: Path) -> None:
    """Answerable ones hold an answer in the gold passage and nowhere else; removed ones nowhere."""
    questions = held_questions(fake_data(tmp_path), 8)
    assert {q.kind for q in questions} == {"answerable", "removed", "impossible"}
    for q in questions:
        holding = [k for k, p in enumerate(q.passages, 1) if q.answers and q.answers[0] in p.text]
        assert len(q.passages) == 5
        if q.kind != "impossible":
            assert holding == ([q.gold] if q.gold else [])


def test_score_counts_what_it_says() -> None:
    """Right sentence, citation and abstention, each over its own questions."""
    passages = (Passage("a", "Bees dance. They sleep."), Passage("b", "Stones lie."))
    asked = HeldQuestion("who dances?", passages, 1, ("bees",), "answerable")
    removed = HeldQuestion("who sings?", passages, 0, ("birds",), "removed")
    marks = score(
        [asked, asked, asked, asked, removed, removed, removed],
        [
            "Bees dance. [1]",
            "Bees dance. [2]",
            "Stones lie. [2]",
            ABSTENTION,
            ABSTENTION,
            "Stones sing. [2]",
            "",
        ],
    )
    assert marks["right sentence"] == 50.0
    assert marks["answered"] == 75.0
    assert marks["citation right where right"] == 50.0
    assert marks["quoted word for word"] == 60.0
    assert marks["abstained, removed"] == 33.3
    assert marks["abstained, impossible"] is None


def test_counting_words_finds_the_sentence_that_has_most_of_the_question() -> None:
    """Rare words count more than frequent ones, a title counts for its passage, and the first of equals is taken."""
    passages = (
        Passage("Bees", "They dance. Stones sleep and lie there. Honey is made in summer."),
        Passage("Stones", "They lie there. Rain falls."),
    )

    def found(question: str) -> str:
        held = HeldQuestion(question, passages, 1, (), "answerable")
        return answers_by_words([held])[0]

    assert found("when is honey made?") == "Honey is made in summer. [1]"
    assert found("how do bees dance?") == "They dance. [1]"
    assert found("stones") == "Stones sleep and lie there. [1]"
    assert found("do stones lie there?") == "Stones sleep and lie there. [1]"
    assert found("where do stones meet rain?") == "Rain falls. [2]"
