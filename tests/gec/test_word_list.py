"""Making the list of English words."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apps.gec.training.words import app
from apps.gec.vocabulary import Vocabulary

VARIANTS = """# color (level 10)
A Cv: color / B C: colour
A: colors / B: colours / Ax: colurs | not a word

# abnormalize (level 95)
A Z: abnormalize / B: abnormalise
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "noise").mkdir()
    (tmp_path / "text" / "docs").mkdir(parents=True)
    (tmp_path / "noise" / "errant_en_GB-large.txt").write_text(
        "Anna\r\ncafé\r\ncat\r\ncat's\r\n", encoding="utf-8"
    )
    variants = tmp_path / "noise" / "varcon_us_uk_variants.txt.gz"
    variants.write_bytes(gzip.compress(VARIANTS.encode("latin-1")))
    rows = json.dumps({"wrong": "teh", "right": "the"}).encode()
    (tmp_path / "noise" / "misspellings.jsonl.gz").write_bytes(gzip.compress(rows))
    for number, text in enumerate(("mutex teh rare Capital", "mutex teh once", "mutex teh rare_name")):
        path = tmp_path / "text" / "docs" / f"{number}.txt.gz"
        path.write_bytes(gzip.compress(((text + "\n") * 5).encode()))
    return tmp_path


def test_the_list_holds_both_spellings_and_what_several_texts_use(data: Path) -> None:
    done = CliRunner().invoke(app, ["--data", str(data), "--out", str(data / "list.gz")])
    assert done.exit_code == 0, done.output
    words = gzip.decompress((data / "list.gz").read_bytes()).decode().split()
    assert words == ["anna", "cafe", "cat", "color", "colors", "colour", "colours", "mutex"]
    assert "cat's" in Vocabulary(words)
    assert "Café".casefold() in Vocabulary(words)


def test_missing_data_are_told(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["--data", str(tmp_path)])
    assert done.exit_code == 2
    assert "--data" in done.output
