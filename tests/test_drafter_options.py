"""`--drafter-option`: written alike in every command, and what it names drafts without changing the text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from apps.drafter_options import read_options
from apps.gec.__main__ import app as gec
from apps.gec.batch.__main__ import app as gec_batch
from apps.ralm.__main__ import app as ralm
from core.alignment.__main__ import main as align

SHIPPED = Path(__file__).parents[1] / "data/models/gec-small"
TEXTS = ("She go to school every days.", "He have two dog and a cats.")


def run(app: typer.Typer, *arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_values_are_numbers_truth_values_or_texts_and_those_of_a_part_stand_under_it() -> None:
    read = read_options(["model=org/x=1", "width=3", "rate=0.5", "is_paced=false", "draft_model.model=y"])
    assert read == {
        "model": "org/x=1",
        "width": 3,
        "rate": 0.5,
        "is_paced": False,
        "draft_model": {"model": "y"},
    }


@pytest.mark.parametrize("item", ["model", "=x", ".model=x", "part.=x", ""])
def test_another_form_is_refused_with_the_item(item: str) -> None:
    with pytest.raises(ValueError, match=f"{item!r} must read NAME=VALUE".replace(".", r"\.")):
        read_options([item])


@pytest.mark.parametrize("items", [["a=1", "a=2"], ["a=1", "a.b=2"], ["a.b=1", "a=2"]])
def test_an_option_given_twice_is_refused(items: list[str]) -> None:
    with pytest.raises(ValueError, match=f"{items[1]!r} was given twice"):
        read_options(items)


@pytest.mark.parametrize(
    ("app", "arguments"),
    [
        (gec, ("She go.",)),
        (gec_batch, ("in.txt", "out.txt")),
        (ralm, ("generate", "Once", "--docs", "docs")),
    ],
)
def test_every_command_names_a_wrong_option_in_one_line(app: typer.Typer, arguments: tuple[str, ...]) -> None:
    told = run(app, *arguments, "--drafter", "draft_model", "--drafter-option", "model")
    assert (told.exit_code, told.stdout) == (2, "")
    assert "error: the drafter option 'model' must read NAME=VALUE" in told.stderr
    assert told.stderr.count("\n") == 1


@pytest.mark.skipif(not SHIPPED.is_dir(), reason="the shipped model is not here")
def test_a_draft_model_cut_from_the_target_corrects_like_plain_decoding(tmp_path: Path) -> None:
    assert align(["cut", "--target", str(SHIPPED), "--out", str(tmp_path / "draft")]) == 0
    plain = run(gec, *TEXTS, "--drafter", "none")
    asked = (*TEXTS, "--drafter", "draft_model", "--drafter-option")
    drafted = run(gec, *asked, f"model={tmp_path / 'draft'}", "--stats")
    assert plain.exit_code == drafted.exit_code == 0
    assert drafted.stdout == plain.stdout != "\n".join(TEXTS) + "\n"
    found = re.search(r"drafted (\d+)", drafted.stderr)
    assert found
    assert int(found[1]) > 0
    absent = run(gec, *asked, f"model={tmp_path / 'absent'}")
    assert absent.exit_code == 2
    assert f"no model folder at '{tmp_path / 'absent'}'" in absent.stderr
