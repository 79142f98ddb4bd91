"""The chat model that ships quotes, cites and abstains, and drafting from the passages changes no token of it."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def _answers(drafter: str) -> list[str]:
    engine = Engine.from_pretrained(str(MODEL), drafter=drafter, device="cpu")
    requests = []
    for question in ANSWERS:
        messages = answer_messages(question, [RIVERS, BEES])
        prompt = engine.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        requests.append(Request(prompt, sources=(RIVERS.text, BEES.text)))
    return [done.text for done in engine.generate(requests, SamplingParams(max_new_tokens=60))]


@pytest.fixture(scope="module")
def plain() -> list[str]:
    """What the model says without drafts."""
    return _answers("none")


def test_plain_questions_are_answered_with_the_sentence_and_its_number(plain: list[str]) -> None:
    """And a question that shares no word with the passages is not."""
    assert plain == list(ANSWERS.values())


@pytest.mark.parametrize("drafter", ["copy", "prompt_lookup", "llma"])
def test_drafting_from_the_passages_changes_no_token(plain: list[str], drafter: str) -> None:
    """Alone or beside other rows."""
    assert _answers(drafter) == plain


def test_the_model_is_small_enough_to_ship() -> None:
    """At most 48 MB."""
    assert sum(file.stat().st_size for file in MODEL.iterdir()) <= 48_000_000
