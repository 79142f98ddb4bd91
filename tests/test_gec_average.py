"""The mean of the weights of alike models."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from apps.gec.training.average import app
from apps.gec.training.model import build_model, small_config


def exported(folder: Path, seed: int, width: int = 32, tokenizer: str = "{}") -> str:
    build_model(small_config(64, width, 1, 1), seed).save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer)
    return str(folder)


def test_every_weight_is_the_mean_and_all_else_is_the_last_models(tmp_path: Path) -> None:
    first, last = exported(tmp_path / "a", 1), exported(tmp_path / "b", 2)
    (tmp_path / "b" / "generation_config.json").write_text('{"max_length": 7}')
    result = CliRunner().invoke(app, [first, last, "--out", str(tmp_path / "c")])
    assert result.exit_code == 0
    a, b, c = (load_file(tmp_path / name / "model.safetensors") for name in "abc")
    assert a.keys() == b.keys() == c.keys()
    assert all(torch.allclose(c[name], (a[name] + b[name]) / 2) for name in a)
    assert any(not torch.equal(a[name], c[name]) for name in a)
    assert (tmp_path / "c" / "generation_config.json").read_text() == '{"max_length": 7}'
    assert (tmp_path / "c" / "tokenizer.json").exists()


@pytest.mark.parametrize(
    ("width", "tokenizer", "told"), [(64, "{}", "differ in size"), (32, "[]", "differ in size or tokenizer")]
)
def test_unlike_models_are_refused(tmp_path: Path, width: int, tokenizer: str, told: str) -> None:
    first, last = exported(tmp_path / "a", 1), exported(tmp_path / "b", 2, width, tokenizer)
    result = CliRunner().invoke(app, [first, last, "--out", str(tmp_path / "c")])
    assert result.exit_code != 0
    assert told in result.stderr
    assert not (tmp_path / "c").exists()


def test_one_model_or_none_is_told(tmp_path: Path) -> None:
    first = exported(tmp_path / "a", 1)
    for models, told in (([first], "two folders"), ([first, str(tmp_path / "x")], "no model.safetensors in")):
        result = CliRunner().invoke(app, [*models, "--out", str(tmp_path / "c")])
        assert result.exit_code != 0
        assert told in result.stderr
