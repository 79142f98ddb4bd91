"""`python -m core.alignment`, from a cut model to a measured one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch

from core.alignment.__main__ import main
from core.drafters.medusa_heads import MedusaHeads
from tests.core.models import build, repetitive, word_tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A target's folder and texts beside it: pairs, and prompts alone."""
    build("bart", torch.float32).save_pretrained(tmp_path / "target")
    word_tokenizer().save_pretrained(tmp_path / "target")
    texts = [" ".join(f"w{token}" for token in repetitive(6, seed=i)) for i in range(8)]
    rows = [json.dumps({"src": text, "tgt": text[::-1][:2] + text[2:]}) for text in texts]
    with gzip.open(tmp_path / "pairs.jsonl.gz", "wt", encoding="utf-8") as out:
        out.write("\n".join(rows))
    (tmp_path / "prompts.txt").write_text("\n".join(texts), encoding="utf-8")
    (tmp_path / "broken.jsonl").write_text("{", encoding="utf-8")
    return tmp_path


def run(folder: Path, words: str) -> int:
    """The command's exit status; T, P and X stand for the target, the pairs and the prompts."""
    named = {"T": folder / "target", "P": folder / "pairs.jsonl.gz", "X": folder / "prompts.txt"}
    return main([str(named.get(word, word)).replace("@", f"{folder}/") for word in words.split()])


KEYS = "--prompt-key src --output-key tgt"
SHORT = "--set max_steps=3 held=2 batch_tokens=64 max_new_tokens=6 optimizer=adamw"


def test_a_draft_is_cut_trained_and_measured(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, f"cut --target T --data P {KEYS} --out @cut --width 16") == 0
    assert json.loads(capsys.readouterr().out)["share"] < 0.6
    assert run(folder, f"train --target T --draft @cut --data X --out @kd --device cpu {SHORT}") == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 3
    assert len((folder / "kd/target.jsonl").read_text().splitlines()) == 8
    assert (folder / "kd/loss.png").exists()
    own = f"train --target T --draft @cut --data P {KEYS} --outputs given --loss likelihood --out @own --device cpu"
    assert run(folder, f"{own} {SHORT}") == 0
    assert not (folder / "own/target.jsonl").exists()
    asked = (
        "accept --target T --data X --device cpu --max-new-tokens 6 --rounds 2 --draft @kd/export --draft T"
    )
    assert run(folder, asked) == 0
    trained, itself = (json.loads(line) for line in capsys.readouterr().out.splitlines()[1:])
    assert trained["prompts"] == itself["prompts"] == 8
    assert itself["greedy"]["accepted"] == 1
    for draft in (trained, itself):
        for setting in ("timed", "timed_sampled"):
            assert draft[setting]["identical"] == 1
            assert min(draft[setting]["times"], draft[setting]["times_cpu"]) > 0
            assert draft[setting]["tokens_per_pass"] >= 1
    assert trained["greedy"]["tokens_per_pass"] < itself["greedy"]["tokens_per_pass"]


def test_heads_fillers_and_boosted_drafts_are_trained(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(
            folder, f"heads --target T --data X --kind medusa --num-heads 2 --out @heads --device cpu {SHORT}"
        )
        == 0
    )
    assert MedusaHeads.load(folder / "heads/export").num_heads == 2
    assert run(folder, "cut --target T --out @cut") == 0
    capsys.readouterr()
    assert (
        run(folder, f"boost --target T --draft @cut --draft @cut --data X --out @boost --device cpu {SHORT}")
        == 0
    )
    covered = json.loads(capsys.readouterr().out)["covered_by_the_first"]
    assert 0 <= covered[0] <= covered[1] <= 1
    assert (folder / "boost/draft-1/export/config.json").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("train --target T --draft T --data @none.txt --out @a", "there is no file"),
        ("train --target T --draft T --data P --out @a", "no text 'prompt'; name the key with --prompt-key"),
        ("train --target T --draft T --data X --outputs given --out @a", "8 of 8 prompts have no output"),
        ("train --target T --draft T --data X --out @a --set nonsense=1", "no setting `nonsense`"),
        ("train --target T --draft T --data @broken.jsonl --out @a", "line 1, is no JSON"),
        ("fill --target T --draft T --data X --out @a", "names no mask token"),
        ("cut --target T --out @a --width 16", "name files with --data"),
        ("train --target @nowhere --draft T --data X --out @a", "no model folder at"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_remedy(
    folder: Path, words: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, words) == 2
    assert reason in capsys.readouterr().err
