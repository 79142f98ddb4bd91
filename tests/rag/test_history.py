"""Conversations survive restarts, kills and neighbours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from apps.rag.history import History


def add(history: History, question: str, stopped: bool = False) -> None:
    history.add(question, f"{question} alone", f"answer to {question}", ("guide.md",), stopped)


def test_the_last_conversation_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "chat" / "history.jsonl"
    first = History(path)
    add(first, "one")
    first.begin()
    add(first, "two")
    add(first, "drei\nüber", stopped=True)
    again = History(path)
    assert [turn.question for turn in again.turns] == ["two", "drei\nüber"]
    assert again.turns == first.turns
    assert again.answers == ["answer to two", "answer to one"]


def test_a_line_cut_short_by_a_kill_is_passed_over_and_written_behind(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    add(History(path), "one")
    path.write_bytes(path.read_bytes() + b'{"conversation": "x", "ques')
    add(History(path), "two")
    assert [turn.question for turn in History(path).turns] == ["one", "two"]


def test_two_chats_may_append_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    first, second = History(path), History(path)
    for number in range(5):
        add(first, f"a{number}")
        add(second, f"b{number}")
    assert len(path.read_text(encoding="utf-8").splitlines()) == 10
    assert len(History(path).turns) == 5


def test_lines_of_other_programs_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('[]\n"x"\n{"other": 1}\n\xff\n', encoding="latin-1")
    assert History(path).turns == []


def test_a_text_given_by_mistake_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "essay.txt"
    path.write_text("My winter\n\nIt was cold.\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"essay.txt' is no history but another file"):
        History(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_history_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    history = History(tmp_path / "history.jsonl")
    with pytest.raises(ValueError, match="not kept"):
        add(history, "one")
    add(history, "two")
    assert len(history.turns) == 2


def test_a_folder_in_the_histories_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        History(tmp_path)
