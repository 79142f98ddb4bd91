"""The chat model that ships quotes, cites and abstains, and drafting from the passages changes no token of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from apps.rag.prompts import ABSTENTION, Passage, answer_messages, quoted
from core import Engine, Request, SamplingParams

MODEL = Path(__file__).parents[2] / "data" / "models" / "chat-small"
RIVERS = Passage("Rivers", "The Danube flows through Vienna. Its source is in a forest.")
BEES = Passage("Bees", "# Bees\nBees dance to tell where flowers stand.")
ANSWERS = {
    "Which river flows through Vienna?": quoted("The Danube flows through Vienna.", 1),
    "How do bees tell where flowers stand?": quoted("Bees dance to tell where flowers stand.", 2),
    "Who painted the ceiling?": ABSTENTION,
}


def _asked(questions: Iterable[str], passages: list[Passage], drafter: str) -> list[str]:
    engine = Engine.from_pretrained(str(MODEL), drafter=drafter, device="cpu")
    requests = []
    for question in questions:
        messages = answer_messages(question, passages)
        prompt = engine.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        requests.append(Request(prompt, sources=tuple(passage.text for passage in passages)))
    return [done.text for done in engine.generate(requests, SamplingParams(max_new_tokens=60))]


def _answers(drafter: str) -> list[str]:
    return _asked(ANSWERS, [RIVERS, BEES], drafter)


@pytest.fixture(scope="module")
def plain() -> list[str]:
    """What the model says without drafts."""
    return _answers("none")


def test_plain_questions_are_answered_with_the_sentence_and_its_number(plain: list[str]) -> None:
    """And a question that shares no word with the passages is not."""
    assert plain == list(ANSWERS.values())


def test_a_question_whose_words_all_stand_in_a_title_is_answered_aloud() -> None:
    """However loudly a title speaks for its passage, the first word of the answer is heard above it."""
    title = "Raindrops Keep Fallin on My Head"
    song = Passage(title, f"{title} is a song of 1969. It was sung by a man from Texas.")
    answers = _asked(["who sang raindrops keep fallin on my head"], [BEES, song, RIVERS], "none")
    assert answers == [quoted(f"{title} is a song of 1969.", 2)]


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        (
            "The keeper of the city park asked the friends of the city park for more trees.",
            "who asked for more trees",
        ),
        (
            "The yellow pin on a city map is the small icon that marks a place on a city map for others.",
            "what is the yellow pin",
        ),
    ],
)
def test_a_sentence_that_says_the_same_words_twice_is_quoted_as_it_stands(
    sentence: str, question: str
) -> None:
    """Eight places apart: the clocks tell them apart."""
    passage = Passage("Notes", sentence)
    assert _asked([question], [RIVERS, passage, BEES], "none") == [quoted(sentence, 2)]


def test_the_full_stop_of_an_abbreviation_ends_no_sentence() -> None:
    """Nor that of an initial: the sentence is found and quoted whole."""
    told = "The first ship, No. 1 of its line, was drawn by Mr. J. K. Falk of St. Helena in 1820."
    ships = Passage("Ships", f"Ships are made of oak. {told} It sank.")
    assert _asked(["who drew the first ship of the line"], [RIVERS, ships, BEES], "none") == [quoted(told, 2)]


def test_the_end_of_a_long_passage_is_cited_with_its_number() -> None:
    """Three hundred tokens behind it, with short passages before."""
    long = " ".join(
        f"The {word} yard has {k} gates made of oak." for k, word in enumerate(["north", "south"] * 14)
    )
    told = "A lighthouse of granite stands behind the harbour."
    passages = [RIVERS, BEES, Passage("Yards", f"{long} {told}"), Passage("Songs", "It was sung by a man.")]
    assert _asked(["where is the granite lighthouse"], passages, "none") == [quoted(told, 3)]


def test_the_title_of_a_passage_alone_is_answered_from_it() -> None:
    """Not with an empty answer."""
    hotels = Passage("Crowne Plaza", "It forms part of a group of brands. It operates in 52 countries.")
    told = "Bees dance to tell where flowers stand."
    bees = Passage("Bees", f"{told} A queen lays up to 2,000 eggs a day. Workers live six weeks.")
    assert _asked(["bees"], [hotels, RIVERS, bees], "none") == [quoted(told, 3)]


def test_plain_transformers_answers_the_same(plain: list[str]) -> None:
    """Loaded as it comes: the config asks for float32, in which alone the model can count."""
    model = AutoModelForCausalLM.from_pretrained(MODEL)
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    for question, answer in zip(ANSWERS, plain, strict=True):
        messages = answer_messages(question, [RIVERS, BEES])
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")[
            "input_ids"
        ]
        said = model.generate(ids, max_new_tokens=60)[0, ids.shape[1] :]
        assert tokenizer.decode(said, skip_special_tokens=True) == answer


@pytest.mark.parametrize("drafter", ["copy", "prompt_lookup", "llma"])
def test_drafting_from_the_passages_changes_no_token(plain: list[str], drafter: str) -> None:
    """Alone or beside other rows."""
    assert _answers(drafter) == plain


def test_the_model_is_small_enough_to_ship() -> None:
    """At most 48 MB."""
    assert sum(file.stat().st_size for file in MODEL.iterdir()) <= 48_000_000
