"""`python -m apps.gec.eval` scores a model beside doing nothing, and says what it could not score."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from apps.gec import corrector
from apps.gec.eval import app
from apps.gec.results import CorrectionStats, SentenceCorrection


class StubCorrector:
    """Writes "goes" for "go": two passes for a sentence with an edit, one without."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.config = SimpleNamespace(model_name="stub", drafter="copy", dtype="auto", caution=0.0)
        words: dict[str, int] = {}
        self.engine = SimpleNamespace(
            drafter=None,
            tokenizer=SimpleNamespace(
                encode=lambda text, add_special_tokens: [
                    words.setdefault(w, len(words)) for w in text.split()
                ]
            ),
        )

    @classmethod
    def from_config(cls, config: Any) -> StubCorrector:
        return cls()

    def correct_sentences(self, sources: Sequence[str]) -> list[SentenceCorrection]:
        return [
            SentenceCorrection(
                source,
                source.replace(" go ", " goes "),
                stats=CorrectionStats(sentences=1, forwards=1 + (" go " in source), drafted=4, accepted=3),
            )
            for source in sources
        ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(corrector, "Corrector", StubCorrector)
    (tmp_path / "eval").mkdir()
    rows = [
        {"src": "He go home .", "tgt": "He goes home ."},
        {"src": "She go away today .", "tgt": "She goes away today ."},
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "eval" / "git_edits_open_test.jsonl").write_text(lines)
    return tmp_path


def test_the_json_line_holds_the_scores_and_those_of_doing_nothing(folder: Path) -> None:
    run = CliRunner().invoke(app, ["--data", str(folder), "--sets", "open,open_clean,jfleg", "--json"])
    assert run.exit_code == 0, run.output
    result = json.loads(run.stdout)
    found = result["sets"]["open"]
    assert (found["quality"]["f05"], found["do_nothing"]["f05"]) == (100.0, 0.0)
    assert found["quality"]["gleu"] == pytest.approx(100.0)
    assert (found["work"]["passes"], found["work"]["bound"], found["work"]["accepted"]) == (2.0, 2.0, 75.0)
    assert result["sets"]["open_clean"]["quality"]["clean_changed"] == 0.0
    assert result["missing"] == ["jfleg"]
    assert "jfleg left out" in run.stderr


def test_without_json_the_tables_are_the_output(folder: Path) -> None:
    run = CliRunner().invoke(app, ["--data", str(folder), "--sets", "open", "--limit", "1"])
    assert run.exit_code == 0, run.output
    assert "do nothing" in run.stdout
    assert "open: 1 sentences" in run.stderr


def test_an_unknown_set_is_an_error_that_lists_the_sets(folder: Path) -> None:
    run = CliRunner().invoke(app, ["--data", str(folder), "--sets", "jfelg"])
    assert run.exit_code == 2
    assert "no evaluation set 'jfelg'" in run.stderr.replace("\n", " ")


def test_nothing_to_score_is_a_failure(tmp_path: Path, folder: Path) -> None:
    run = CliRunner().invoke(app, ["--data", str(tmp_path / "absent"), "--sets", "open"])
    assert (run.exit_code, run.stdout) == (1, "")
    assert "nothing was scored" in run.stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [(["--limit", "0"], "Invalid value for '--limit'"), (["--caution", "inf"], "error: caution=inf")],
)
def test_a_wrong_value_is_told_in_a_line(folder: Path, given: list[str], words: str) -> None:
    run = CliRunner().invoke(app, ["--data", str(folder), "--sets", "open", *given])
    assert run.exit_code == 2
    assert words in run.stderr
