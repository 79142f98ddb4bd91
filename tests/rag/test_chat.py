"""The conversation in a terminal, line by line."""

from __future__ import annotations

import io
import signal
from pathlib import Path
from typing import Any

import pytest
from rag_engines import DictatingEngine
from rich.console import Console
from test_answering import SENTENCE, SOURCES, Found

from apps.rag import ChatEchodraft
from apps.rag.answering import Answerer
from apps.rag.chat import Chat, Screen
from apps.rag.history import History
from apps.rag.interrupt import StopOnInterrupt
from apps.rag.prompts import ABSTENTION


class Conversation:
    """A chat whose lines are given, with what it wrote."""

    def __init__(self, engine: DictatingEngine, sources: list[Any], history: Path | None = None) -> None:
        self.engine, self.search = engine, Found(sources)
        self.out, self.hints = io.StringIO(), io.StringIO()
        screen = Screen(
            *(Console(file=file, soft_wrap=True, highlight=False) for file in (self.out, self.hints))
        )
        answerer = Answerer(self.search, ChatEchodraft(engine=engine, max_tokens=200), way="words")
        self.history = History(history)
        self.chat = Chat(answerer, self.history, screen, stats=True)

    def hear(self, lines: str, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        self.chat.run()
        return self.out.getvalue()


def test_an_answer_is_followed_by_its_cited_sources_and_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Conversation(DictatingEngine(f"{SENTENCE} [1]"), SOURCES)
    said = heard.hear("What does the budget decide?\n", monkeypatch)
    assert said == f"{SENTENCE} [1]\n  [1] engine.md, The budget, characters 120 to 200, score 0.81\n"
    assert "tokens per forward" in heard.hints.getvalue()


def test_where_nothing_is_cited_the_best_passage_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Conversation(DictatingEngine("Something."), SOURCES).hear("What is it?\n", monkeypatch)
    assert "nothing is cited; the best passage:\n  [1] engine.md" in said


def test_where_nothing_is_found_no_sources_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Conversation(DictatingEngine("invented"), [])
    assert heard.hear("Who discovered radium?\n/sources\n", monkeypatch) == ABSTENTION + "\n"
    assert "there were none" in heard.hints.getvalue()


def test_sources_are_shown_in_full_and_markup_in_them_is_only_text(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    strange = [replace(SOURCES[0], heading="[bold]a[/x]", text="see [red]this[/blue]")]
    said = Conversation(DictatingEngine("[b]yes[/c] [1]"), strange).hear(
        "What is it?\n/sources\n", monkeypatch
    )
    assert "[b]yes[/c] [1]" in said
    assert "[bold]a[/x]" in said
    assert "see [red]this[/blue]" in said


def test_follow_ups_use_the_history_until_a_new_conversation_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Conversation(DictatingEngine("yes [1]"), SOURCES)
    heard.hear("What is the draft budget?\nHow does it measure?\n/new\nHow does it measure?\n", monkeypatch)
    assert heard.search.queries[1:] == ["How does it measure? (draft budget)", "How does it measure?"]
    assert "asked as: How does it measure? (draft budget)" in heard.hints.getvalue()


def test_a_restarted_chat_knows_the_conversation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.jsonl"
    Conversation(DictatingEngine("yes [1]"), SOURCES, path).hear("What is the draft budget?\n", monkeypatch)
    again = Conversation(DictatingEngine("yes [1]"), SOURCES, path)
    again.hear("How does it measure?\n", monkeypatch)
    assert again.search.queries == ["How does it measure? (draft budget)"]
    assert "yes [1]" in again.engine.asked[0].sources


def test_quit_leaves_and_blank_lines_and_unknown_commands_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Conversation(DictatingEngine("yes"), SOURCES)
    assert heard.hear("\n   \n/what\n/help\n/sources\n/quit\nWho?\n", monkeypatch) == ""
    hints = heard.hints.getvalue()
    assert "no command /what" in hints
    assert "/sources" in hints
    assert "no sources yet" in hints


def test_a_question_that_cannot_be_answered_is_told_and_the_chat_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = Conversation(DictatingEngine("yes [1]", max_positions=900), SOURCES)
    said = heard.hear("why " * 400 + "\nWhat is it?\n", monkeypatch)
    assert said.startswith("yes [1]\n")
    assert "the question has" in heard.hints.getvalue()


class Interrupted(DictatingEngine):
    """Ctrl-C comes in the middle of the answer, `times` times."""

    times = 1

    def step(self) -> None:
        super().step()
        row = next(iter(self.running), None)
        if row is not None and len(row.output_ids) > 4:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)
            self.times = 0


def test_an_interrupt_stops_the_answer_and_not_the_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Interrupted(f"{SENTENCE} {SENTENCE} [1]")
    heard = Conversation(engine, SOURCES)
    said = heard.hear("What is the draft budget?\nHow does it measure?\n", monkeypatch)
    first, second = said.split("\n")[0], said.split("\n")
    assert SENTENCE.startswith(first[:20])
    assert len(first) < len(SENTENCE)
    assert f"{SENTENCE} {SENTENCE} [1]" in second
    assert "(stopped)" in heard.hints.getvalue()
    assert not engine.running
    assert [turn.stopped for turn in heard.history.turns] == [True, False]
    assert heard.search.queries[1] == "How does it measure? (draft budget)"
    # What was stopped half-way is nothing to copy from.
    assert heard.history.answers == [f"{SENTENCE} {SENTENCE} [1]"]


def test_a_second_interrupt_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Interrupted("a long answer that goes on and on")
    engine.times = 2
    heard = Conversation(engine, SOURCES)
    with pytest.raises(KeyboardInterrupt):
        heard.hear("What is it?\n", monkeypatch)
    assert not engine.running


def test_the_signal_is_given_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopOnInterrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert interrupt.asked
    assert signal.getsignal(signal.SIGINT) is before
