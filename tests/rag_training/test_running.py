"""A few steps of training, from nothing and from a model of one's own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from apps.rag.training.batches import make_batch
from apps.rag.training.objective import AnswerObjective, TrainConfig
from apps.rag.training.rows import Renderer, conversation_row
from apps.rag.training.shards import build_shard
from apps.rag.training.tokenizer import END, PAD
from core.training import ShardFeed, Trainer
from tests.rag_training.library import TEXTS, TOKENIZER, library, shard, tiny


class _FixedFeed(ShardFeed):
    """A feed that makes its shards at once."""

    def prepare(self, kind: str, index: int, **changes: Any) -> Path:
        path = self.path(kind, index)
        return path if path.exists() else shard(path)


def _trainer(out: Path, **values: Any) -> Trainer:
    config = TrainConfig(
        **{"max_steps": 12, "batch_tokens": 512, "warmup_steps": 2, "optimizer": "adamw"} | values
    )
    feed = _FixedFeed(None, out / "shards")
    feed.prepare("held", 0)
    objective = AnswerObjective(feed, config)
    return Trainer(tiny(), objective, out, config, lambda line: None, TOKENIZER.save_pretrained, "cpu")


def test_training_learns_resumes_and_exports(tmp_path: Path) -> None:
    """The held-out loss falls, a second run goes on, and plain transformers generates from the export."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    first = _trainer(tmp_path)
    first.run()
    second = _trainer(tmp_path, max_steps=40)
    assert second.resume()
    assert second.progress.step == 12
    ended = second.run()
    assert ended.step == 40
    assert ended.held[-1][2] < ended.held[0][2]
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "export")
    assert model.dtype == torch.bfloat16
    assert model.generation_config.eos_token_id == END
    ids = AutoTokenizer.from_pretrained(tmp_path / "export")("Why?", return_tensors="pt")["input_ids"]
    assert model.generate(ids, max_new_tokens=3).shape[1] > ids.shape[1]


def test_training_for_no_time_exports_the_first_weights(tmp_path: Path) -> None:
    """`--minutes 0` makes no step: how the shipped model is written."""
    from safetensors.torch import load_file

    assert _trainer(tmp_path, minutes=0).run().step == 0
    exported = load_file(tmp_path / "export" / "model.safetensors")
    for name, weight in tiny().state_dict().items():
        if name in exported:
            torch.testing.assert_close(exported[name], weight.to(torch.bfloat16), rtol=0, atol=0)


def test_loss_counts_weights() -> None:
    """A target of weight nought changes nothing."""
    row = conversation_row(library(), Renderer(TOKENIZER), 256, Random(0), PAD, False)
    assert row is not None
    batch = make_batch(row.ids[None], row.places[None], row.weights[None], row.pointers[None])
    objective = AnswerObjective(_FixedFeed.__new__(_FixedFeed), TrainConfig())
    model = tiny()
    loss, _ = objective.loss(model, batch, 0.0)
    silent = batch.weights == 0
    batch.labels[silent] = 7
    again, _ = objective.loss(model, batch, 0.0)
    assert silent.any() or row.weights.all()
    assert loss.item() == pytest.approx(again.item())


def test_command_names_missing_data(tmp_path: Path) -> None:
    """Without data the command says what is missing."""
    from apps.rag.train import app

    result = CliRunner().invoke(app, ["--out", str(tmp_path / "o"), "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "--data" in result.output + (result.stderr or "")


class _NearFeed(ShardFeed):
    """A feed that makes its shards in this process, which spares the test a second start of the libraries."""

    def prepare(self, kind: str, index: int, **changes: Any) -> Path:
        path = self.path(kind, index)
        return path if path.exists() else build_shard(replace(self.base, out=str(path), **changes))


def test_fine_tuning_with_own_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--model` and `--pairs` fine-tune a saved model, in a few steps, and leave an export and a picture."""
    import core.training
    from apps.rag.train import app

    monkeypatch.setattr(core.training, "ShardFeed", _NearFeed)

    pytest.importorskip("matplotlib")
    tiny().save_pretrained(tmp_path / "own")
    TOKENIZER.save_pretrained(tmp_path / "own")
    pairs = tmp_path / "own.jsonl"
    rows = [
        {
            "question": f"what {t.split()[1]}?",
            "passages": [{"title": "", "text": t}],
            "answer": t.split(".")[0],
        }
        for t in TEXTS
    ]
    pairs.write_text("\n".join(map(json.dumps, rows)))
    options = [
        "--out",
        str(tmp_path / "run"),
        "--model",
        str(tmp_path / "own"),
        "--pairs",
        str(pairs),
        "--quiet",
    ]
    for setting in ("max_steps=2", "shard_tokens=2048", "held_tokens=2048", "batch_tokens=1024"):
        options += ["--set", setting]
    result = CliRunner().invoke(app, [*options, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "run" / "export" / "model.safetensors").exists()
    assert (tmp_path / "run" / "loss.png").exists()


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_embeddings_have_a_rate_of_their_own(tmp_path: Path, optimizer: str) -> None:
    """With none, they stay as they were while the rest learns."""
    trainer = _trainer(tmp_path, max_steps=3, optimizer=optimizer, embed_lr=0.0)
    before = {name: weight.clone() for name, weight in trainer.model.named_parameters()}
    trainer.run()
    after = dict(trainer.model.named_parameters())
    assert torch.equal(after["model.embed_tokens.weight"], before["model.embed_tokens.weight"])
    assert not torch.equal(
        after["model.layers.0.mlp.up_proj.weight"], before["model.layers.0.mlp.up_proj.weight"]
    )
