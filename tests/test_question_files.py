"""Files of questions in the forms that people have them in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.rag import evaluation as rag
from apps.ralm import evaluation as ralm

FORMS = [["Vienna", "in Vienna"], {"text": ["Vienna", "in Vienna"], "answer_start": [0, 4]}]


def _file(folder: Path, answers: Any, question: Any = "Where?") -> Path:
    path = folder / "questions.jsonl"
    path.write_text(
        json.dumps({"question": question, "answers": answers}, ensure_ascii=False), encoding="utf-8"
    )
    return path


@pytest.mark.parametrize("answers", FORMS)
@pytest.mark.parametrize("evaluation", [rag, ralm])
def test_answers_are_lists_or_as_squad_has_them(evaluation: Any, answers: Any, tmp_path: Path) -> None:
    (item,) = evaluation.read_items(_file(tmp_path, answers))
    assert item.answers == ("Vienna", "in Vienna")


@pytest.mark.parametrize("answers", [{"a": ["x"]}, 7, [7], None, {"text": "x"}])
@pytest.mark.parametrize("evaluation", [rag, ralm])
def test_what_is_no_answer_is_named_with_its_line(evaluation: Any, answers: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"line 1.*are no answers; write a list of texts"):
        evaluation.read_items(_file(tmp_path, answers))


@pytest.mark.parametrize("evaluation", [rag, ralm])
def test_a_separator_within_a_text_does_not_cut_the_line(evaluation: Any, tmp_path: Path) -> None:
    """JSON may hold U+2028 as it is."""
    (item,) = evaluation.read_items(_file(tmp_path, ["x"], "Where\u2028is it?"))
    assert item.question == "Where\u2028is it?"
