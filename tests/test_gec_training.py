"""Training: lossless tokenizer, shards, batches, schedule, a few steps of a tiny model, and going on."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from apps.gec.training import corpus as corpora
from apps.gec.training.batches import WIDTHS, Shard, batches
from apps.gec.training.model import build_model, small_config
from apps.gec.training.objective import CorrectionObjective, TrainConfig, weighted_loss
from apps.gec.training.shards import ShardSpec, edited, encode_pairs
from apps.gec.training.tokenizer import EOS, train_tokenizer, wrap
from core.training import Muon, ShardFeed, Trainer, orthogonalise, rate_factor, split_parameters

SENTENCES = [
    "The students want to take their books because they think that the problem is different.",
    "He always goes to school by bus, and he usually gives the driver some money.",
    "What do you think about the new law? Many people believe that it makes life better.",
    'She said, "I do not know," and walked 12 miles.',
] * 8
TOKENIZER = train_tokenizer(SENTENCES, 400)


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_tokenizer_is_lossless(text: str) -> None:
    """Every text comes back as it was: spaces, quotes, line ends, emoji, even `</s>`."""
    wrapped = wrap(TOKENIZER)
    assert wrapped.decode(wrapped.encode(text), skip_special_tokens=True) == text


@pytest.mark.parametrize(
    "text", ["</s>", "  two  spaces ", "a\n\nb\t", "``quoted''", "“curly” — dash…", "<pad><s>"]
)
def test_tokenizer_hard_cases(text: str, tmp_path: Path) -> None:
    """The same after saving and loading through transformers."""
    from transformers import AutoTokenizer

    wrap(TOKENIZER).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    ids = loaded(text)["input_ids"]
    assert ids[-1] == EOS
    assert EOS not in ids[:-1]
    assert loaded.decode(ids, skip_special_tokens=True) == text


def test_digits_stand_alone() -> None:
    """No token holds two digits."""
    assert not [token for token in TOKENIZER.get_vocab() if sum(c.isdigit() for c in token) > 1]


def test_split_sentences() -> None:
    """Abbreviations do not end a sentence; a mark before a capital does."""
    assert corpora.split_sentences("Mr. Bell came. He left at 5 p.m. That was it! Was it?") == [
        "Mr. Bell came.",
        "He left at 5 p.m. That was it!",
        "Was it?",
    ]


def test_edited_marks() -> None:
    """Changed target tokens are marked, after a deletion the next one, equal sentences not at all."""
    assert edited([5, 6, 7], [5, 6, 7]) == [False] * 3
    assert edited([5, 6, 7], [5, 9, 7]) == [False, True, False]
    assert edited([5, 6, 7], [5, 7]) == [False, True]
    assert edited([5, 7], [5, 6, 7]) == [False, True, False]


def _shard(path: Path, count: int = 60) -> Path:
    rng = Random(0)
    pairs = [(" ".join(rng.sample(t.split(), len(t.split()))), t) for t in (SENTENCES * 4)[:count]]
    np.savez(path, **encode_pairs(pairs, TOKENIZER, 256))
    return path


def test_shard_and_batches(tmp_path: Path) -> None:
    """Rows come back whole, padded to a fixed width; the decoder sees the target one place later."""
    shard = Shard(_shard(tmp_path / "s.npz"))
    seen = 0
    for batch in batches(shard, 256, 1, 2, seed=0, whole=False):
        assert batch.source.shape == batch.labels.shape
        assert batch.source.shape[1] in WIDTHS
        assert (batch.decoder_input[:, 0] == 2).all()
        inside = batch.labels[:, :-1] >= 0
        assert (batch.decoder_input[:, 1:][inside] == batch.labels[:, :-1][inside]).all()
        assert (batch.labels == EOS).sum(1).eq(1).all()
        seen += len(batch.source)
    assert seen == len(shard)


def test_orthogonalise() -> None:
    """Singular values end up near one."""
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalise(torch.randn(2, 16, 32), 5).float())
    assert values.min() > 0.5
    assert values.max() < 1.4


def test_muon_learns_a_map() -> None:
    """Muon lowers a simple loss, for tall and for wide matrices alike."""
    torch.manual_seed(0)
    tall, wide = torch.nn.Linear(8, 24, bias=False), torch.nn.Linear(24, 8, bias=False)
    optimizer = Muon([tall.weight, wide.weight], lr=0.05)
    x = torch.randn(64, 8)
    losses = []
    for _ in range(60):
        loss = (wide(tall(x)) - x).square().mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.5 * losses[0]


def test_schedule() -> None:
    """Warm-up, level, then down to nearly nothing."""
    config = TrainConfig(warmup_steps=10, decay_share=0.3)
    assert rate_factor(0, 0.0, config) == pytest.approx(0.1)
    assert rate_factor(100, 0.5, config) == 1.0
    assert rate_factor(100, 0.85, config) == pytest.approx(0.5)
    assert rate_factor(100, 1.0, config) <= 0.011


def _tiny() -> torch.nn.Module:
    return build_model(small_config(TOKENIZER.get_vocab_size(), width=32, encoder=1, decoder=1))


class _FixedFeed(ShardFeed):
    """A feed that makes its shards at once, out of a handful of sentences."""

    def prepare(self, kind: str, index: int, **changes: object) -> Path:
        path = self.path(kind, index)
        return path if path.exists() else _shard(path)


def _trainer(out: Path, **settings: object) -> Trainer:
    spec = ShardSpec(data="", corpus="", tokenizer="", out="", seed=1)
    values = {"max_steps": 12, "batch_tokens": 256, "early_batch_tokens": 256, "warmup_steps": 4, **settings}
    feed = _FixedFeed(spec, out / "shards")
    feed.prepare("held", 0)
    lines: list[str] = []
    config = TrainConfig(**values)
    objective = CorrectionObjective(feed, config, pad=1, start=2)
    return Trainer(_tiny(), objective, out, config, lines.append, wrap(TOKENIZER).save_pretrained, "cpu")


def test_a_fresh_model_looks_at_the_same_place() -> None:
    """From the first step the decoder's attention over the source has its peak at its own place."""
    model = build_model(small_config(400, width=64, encoder=1, decoder=1)).eval()
    model.set_attn_implementation("eager")
    ids = torch.randint(4, 400, (1, 12))
    out = model(input_ids=ids, decoder_input_ids=ids, output_attentions=True)
    weights = out.cross_attentions[0][0].mean(0)
    assert (weights.argmax(-1) == torch.arange(12)).float().mean() > 0.8


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_training_learns_and_resumes(tmp_path: Path, optimizer: str) -> None:
    """The loss falls; a second run goes on at the step where the first stopped and ends where it should."""
    first = _trainer(tmp_path, optimizer=optimizer, lr=3e-3, embed_lr=3e-3)
    progress = first.run()
    assert progress.step == 12
    assert progress.tokens > 0
    assert progress.held
    second = _trainer(tmp_path, optimizer=optimizer, max_steps=40)
    assert second.resume()
    assert second.progress.step == 12
    ended = second.run()
    assert ended.step == 40
    assert ended.held[-1][2] < ended.held[0][2]
    assert len(list((tmp_path / "checkpoints").glob("*.pt"))) <= 2


def test_export_is_plain_transformers(tmp_path: Path) -> None:
    """The export loads with the Auto classes, in bf16, and generates."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    _trainer(tmp_path, max_steps=2).run()
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "export")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "export")
    assert model.dtype == torch.bfloat16
    ids = tokenizer("He goes to school.", return_tensors="pt")["input_ids"]
    assert model.generate(ids, max_new_tokens=4).shape[1] <= 6


def test_early_stopping(tmp_path: Path) -> None:
    """With patience a run ends once the held-out loss no longer falls."""
    trainer = _trainer(tmp_path, max_steps=500, patience=1, lr=0.0, embed_lr=0.0, checkpoint_minutes=0.0)
    assert trainer.run().step < 500


def test_a_pause_does_not_eat_the_budget(tmp_path: Path) -> None:
    """One step counts for a few seconds at most."""
    trainer = _trainer(tmp_path, longest_step=1e-6, max_steps=3)
    trainer.run()
    assert trainer.progress.seconds <= 3e-6 + 1e-9


def test_weighted_loss_counts_edits_more(tmp_path: Path) -> None:
    """With weight one both losses are the same."""
    shard = Shard(_shard(tmp_path / "s.npz"))
    batch = next(batches(shard, 256, 1, 2, seed=0, whole=False))
    logits = torch.randn(*batch.labels.shape, TOKENIZER.get_vocab_size())
    weighted, plain = weighted_loss(logits, batch, 1.0)
    assert float(weighted) == pytest.approx(float(plain), rel=1e-5)
    assert float(weighted_loss(logits, batch, 3.0)[0]) != pytest.approx(float(plain), rel=1e-7)


def test_split_parameters() -> None:
    """Embeddings and positions are not hidden matrices."""
    model = _tiny()
    hidden, rest = split_parameters(model)
    assert hidden
    assert all(p.ndim == 2 for p in hidden)
    shared = model.model.shared.weight
    assert any(p is shared for p in rest)
    assert not any(p is shared for p in hidden)


def _fake_data(folder: Path) -> Path:
    """A data folder small enough to train on in seconds."""
    (folder / "text").mkdir(parents=True)
    (folder / "noise").mkdir()
    with gzip.open(folder / "text" / "tatoeba_eng.txt.gz", "wt") as file:
        file.write("\n".join(SENTENCES * 10))
    (folder / "noise" / "errant_en_GB-large.txt").write_text("school\nbus\nbook\nbooks\nwant\n")
    with gzip.open(folder / "noise" / "lemminflect_infl_lu.csv.gz", "wt") as file:
        file.write("book,noun,books\nwant,verb,wanted,,wanting,wants\n")
    with gzip.open(folder / "noise" / "misspellings.jsonl.gz", "wt") as file:
        file.write(json.dumps({"wrong": "shcool", "right": "school", "src": "typos"}) + "\n")
    (folder / "noise" / "toefl_spell.jsonl").write_text(
        json.dumps({"wrong": "becuase", "right": "because"}) + "\n"
    )
    return folder


def test_shard_process(tmp_path: Path) -> None:
    """A shard made by the other process is the same for the same spec, and differs by index."""
    from apps.gec.corruption import load_lexicon

    data = _fake_data(tmp_path / "data")
    corpora.pack_corpus(data, tmp_path / "corpus", load_lexicon(data))
    wrap(TOKENIZER).save_pretrained(tmp_path / "tokenizer")
    spec = ShardSpec(
        data=str(data), corpus=str(tmp_path / "corpus"),
        tokenizer=str(tmp_path / "tokenizer" / "tokenizer.json"), out="", seed=1, count=50, real_share=0.0,
    )  # fmt: skip
    one = ShardFeed(spec, tmp_path / "one")
    two = ShardFeed(spec, tmp_path / "two")
    first = Shard(one.wait(one.prepare("main", 0)))
    again = Shard(two.wait(two.prepare("main", 0)))
    other = Shard(two.wait(two.prepare("main", 1)))
    assert np.array_equal(first.src, again.src)
    assert np.array_equal(first.edited, again.edited)
    assert not np.array_equal(first.src, other.src)
    assert first.src.dtype == np.uint16


def test_command_names_missing_data(tmp_path: Path) -> None:
    """Without data the command says what is missing."""
    from apps.gec.train import app

    result = CliRunner().invoke(app, ["--out", str(tmp_path / "o"), "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "--data" in result.output + (result.stderr or "")


def test_command_names_a_wrong_setting(tmp_path: Path) -> None:
    """An unknown setting is refused, with the list of those there are."""
    from apps.gec.train import app

    data = _fake_data(tmp_path / "data")
    result = CliRunner().invoke(app, ["--out", str(tmp_path / "o"), "--data", str(data), "--set", "speed=1"])
    assert result.exit_code == 2


def test_fine_tuning_with_own_pairs(tmp_path: Path) -> None:
    """`--model` and `--pairs` fine-tune a saved model, in a few steps, and leave an export and a picture."""
    from apps.gec.train import app

    pytest.importorskip("matplotlib")
    data = _fake_data(tmp_path / "data")
    _tiny().save_pretrained(tmp_path / "own")
    wrap(TOKENIZER).save_pretrained(tmp_path / "own")
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(
        "\n".join(json.dumps({"src": "He go to school.", "tgt": "He goes to school."}) for _ in range(5))
    )
    options = [
        "--out",
        str(tmp_path / "run"),
        "--data",
        str(data),
        "--model",
        str(tmp_path / "own"),
        "--quiet",
    ]
    options += [
        "--pairs",
        str(pairs),
        "--set",
        "max_steps=3",
        "--set",
        "shard_size=60",
        "--set",
        "batch_tokens=256",
    ]
    result = CliRunner().invoke(app, [*options, "--set", "early_batch_tokens=256", "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "run" / "export" / "model.safetensors").exists()
    assert (tmp_path / "run" / "loss.png").exists()
