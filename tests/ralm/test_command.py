"""The command writes the same with and without speculation, and says what is wrong in words."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from apps.ralm.__main__ import app
from apps.ralm.scoring import exact_match, f1
from tests.core.models import BYTE_VOCAB, build, byte_tokenizer
from tests.ralm.corpora import documents

PROMPT = "w50 w51 w52 w9"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A random model over bytes, and a few files of text."""
    model, docs = tmp_path_factory.mktemp("model"), tmp_path_factory.mktemp("docs")
    settings = {"vocab_size": BYTE_VOCAB, "max_position_embeddings": 1024, "num_hidden_layers": 1}
    build("llama", torch.float32, **settings).save_pretrained(model)
    byte_tokenizer().save_pretrained(model)
    for document in documents(6):
        (docs / f"{document.id}.txt").write_text(document.page_content)
    return model, docs


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHODRAFT_CACHE", str(tmp_path))


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def common(folders: tuple[Path, Path]) -> list[object]:
    model, docs = folders
    return ["--docs", docs, "--model", model, "--retriever", "bm25", "--document-tokens", 40]


def test_generate_prints_the_same_text_in_both_modes_and_figures_on_stderr(
    folders: tuple[Path, Path],
) -> None:
    options = [*common(folders), "--max-tokens", 12, "--temperature", 0.8]
    plain = run("generate", PROMPT, *options, "--sequential")
    ours = run("generate", PROMPT, *options, "--steps", 2, "--stats")
    assert (plain.exit_code, ours.exit_code) == (0, 0), plain.stderr + ours.stderr
    assert ours.stdout == plain.stdout
    assert len(ours.stdout) > 1
    assert "roll-backs" in ours.stderr
    assert "6 passages of 6 files" in plain.stderr


def test_eval_compares_both_modes(folders: tuple[Path, Path], tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text(
        "".join(json.dumps({"question": f"w{i}?", "answers": ["x"]}) + "\n" for i in (9, 50))
    )
    done = run("eval", questions, *common(folders), "--max-tokens", 8, "--format", "json")
    assert done.exit_code == 0, done.stderr
    scores = json.loads(done.stdout)
    assert scores["questions"] == 2
    assert scores["same_tokens_as_sequential"] == 1.0


@pytest.mark.parametrize("method", ["iter-retgen", "flare"])
def test_other_ways_to_retrieve_print_the_same_text_in_both_modes(
    folders: tuple[Path, Path], method: str
) -> None:
    options = [*common(folders), "--max-tokens", 12, "--method", method, "--lookahead", 4, "--iterations", 3]
    plain = run("generate", PROMPT, *options, "--sequential", "--stats")
    ours = run("generate", PROMPT, *options)
    assert (plain.exit_code, ours.exit_code) == (0, 0), plain.stderr + ours.stderr
    assert ours.stdout == plain.stdout
    # Every four tokens would be three times.
    assert "retrievals " in plain.stderr
    assert "retrievals 3," not in plain.stderr


def test_a_datastore_is_built_written_with_and_measured(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, docs = folders
    other = tmp_path / "text.txt.gz"
    other.write_bytes(gzip.compress(documents(9)[8].page_content.encode()))
    store, texts = tmp_path / "store", sorted(docs.iterdir())
    built = run("datastore", *texts, "--model", model, "--out", store, "--window", 64)
    assert built.exit_code == 0, built.stderr
    options = ["--datastore", store, "--model", model, "-k", 4, "--lambda", 0.5, "--bandwidth", 20]
    plain = run("generate", PROMPT, *options, "--max-tokens", 12, "--sequential")
    ours = run("generate", PROMPT, *options, "--max-tokens", 12, "--stats")
    assert (plain.exit_code, ours.exit_code) == (0, 0), plain.stderr + ours.stderr
    assert ours.stdout == plain.stdout
    assert "gamma" in ours.stderr
    done = run("eval", other, *options, "--limit", 20, "--format", "json")
    assert done.exit_code == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["tokens"], figures["k"], figures["lambda"]) == (20, 4, 0.5)
    assert figures["lm_perplexity"] != figures["knn_lm_perplexity"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["generate", PROMPT], "either --docs"),
        (["generate", PROMPT, "--datastore", "x", "--docs", "y"], "either --docs"),
        (["generate", PROMPT, "--datastore", "nowhere", "--model", "m"], "nowhere holds no datastore"),
        (["datastore", "nowhere.txt", "--out", "x", "--model", "m"], "nowhere.txt cannot be read as text"),
        (["eval", "nowhere.txt", "--datastore", "x", "--model", "m"], "nowhere.txt cannot be read as text"),
        (["generate", PROMPT, "--docs", "nowhere", "--model", "m"], "there is nothing at nowhere"),
        (["generate", " ", "--docs", "nowhere"], "the prompt is empty"),
        (["generate", "caf\udce9", "--docs", "nowhere"], "the prompt is not UTF-8"),
        (["eval", "nowhere.jsonl", "--docs", "nowhere"], "the questions cannot be read"),
        (["generate", PROMPT, "--docs", ".", "--model", "m", "--retriever", "x"], "retriever 'x' is unknown"),
        (["generate", PROMPT, "--docs", ".", "--stride", "0"], "stride=0"),
    ],
)
def test_what_is_wrong_is_said_in_words(arguments: list[str], words: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr


def test_answers_are_scored_as_squad_scores_them() -> None:
    assert exact_match("The  cat.", ["a dog", "cat"])
    assert not exact_match("cats", ["cat"])
    assert f1("the black cat sat", ["a black dog", "x"]) == pytest.approx(2 * 1 / (3 + 2))
    assert f1("x", []) == 0
