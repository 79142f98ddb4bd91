"""Trains the grammar-correction model: `python -m apps.gec.train` (from scratch, or a model of your own)."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apps.gec.training.corpus import need_data
from apps.option_groups import takes_groups
from apps.places import SHARED_DATA
from apps.printing import told
from apps.training_command import Out, TrainingOptions, journal, run

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from apps.gec.training.objective import TrainConfig

# Threads that wait must sleep, not spin: beside another busy process, spinning makes a step ten times longer.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def _load_model(model: str, device: str) -> PreTrainedModel:
    from transformers import AutoModelForSeq2SeqLM

    from apps.gec.training.model import build_model, small_config
    from core.loading import pick_device

    loaded: PreTrainedModel = (
        AutoModelForSeq2SeqLM.from_pretrained(model, dtype="float32")
        if model
        else build_model(small_config())
    )
    if pick_device(device).type == "cpu":
        # For rows as short as sentences, the backward pass of the fused attention takes ten times its forward pass.
        loaded.set_attn_implementation("eager")
    return loaded


def _tokenizer_folder(model: str, out: Path, data: Path) -> Path:
    """The tokenizer of the run: trained here, or taken from the user's model."""
    from apps.gec.training.prepare import prepare

    folder = out / "tokenizer"
    if model and not (folder / "tokenizer.json").exists():
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(model).save_pretrained(folder)
        if not (folder / "tokenizer.json").exists():
            raise ValueError(
                f"{model} has no fast tokenizer (tokenizer.json), which the shards are made with"
            )
    prepare(data, out, 8192)
    return folder


def run_training(
    out: Path, data: Path, model: str, pairs: str, device: str, config: TrainConfig, quiet: bool = False
) -> None:
    """Prepares, resumes, trains, exports and draws."""
    from transformers import AutoTokenizer

    from apps.gec.training.objective import CorrectionObjective
    from apps.gec.training.shards import ShardSpec
    from core.training import ShardFeed, Trainer, draw_curve

    out.mkdir(parents=True, exist_ok=True)
    tokenizer_folder = _tokenizer_folder(model, out, data)
    spec = ShardSpec(
        data=str(data), corpus=str(out / "corpus"), tokenizer=str(tokenizer_folder / "tokenizer.json"),
        out="", seed=config.seed, count=config.shard_size, real_share=config.real_share,
        clean_share=config.clean_share, pairs=str(Path(pairs).resolve()) if pairs else "",
    )  # fmt: skip
    feed = ShardFeed(spec, out / "shards")
    feed.prepare("main", 0)
    feed.wait(feed.prepare("held", 0, held_out=True, count=min(2500, config.shard_size)))
    with journal(out, quiet) as log:
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
        loaded = _load_model(model, device)
        ids = loaded.config
        objective = CorrectionObjective(feed, config, ids.pad_token_id, ids.decoder_start_token_id)
        trainer = Trainer(loaded, objective, out, config, log, tokenizer.save_pretrained, device)
        log(json.dumps({"device": str(trainer.device), "model": model or "new", **asdict(config)}))
        trainer.resume()
        try:
            run(trainer, quiet)
        finally:
            feed.close()
    draw_curve(out / "progress.json", out / "loss.png")


def _config(training: TrainingOptions, is_tuning: bool, pairs: str) -> TrainConfig:
    from apps.gec.training.objective import TrainConfig

    base = TrainConfig()
    if pairs:
        base = replace(base, real_share=0.5, final_real_share=0.5)
    return training.config(base, is_tuning=is_tuning)


@app.command()
@takes_groups
def main(
    *,
    out: Out,
    data: Annotated[
        Path,
        typer.Option(
            help="Folder with text/, pairs/ and noise/.", show_default="../shared/data, beside this"
        ),
    ] = SHARED_DATA,
    model: Annotated[str, typer.Option(help="Fine-tune this seq2seq model (path or hub id) instead.")] = "",
    pairs: Annotated[
        str, typer.Option(help='Your own pairs: JSONL of {"src", "tgt"}, used as the real ones.')
    ] = "",
    training: TrainingOptions,
) -> None:
    """Train gec-small, or fine-tune your own model on the same errors."""
    with told(FileNotFoundError, ValueError, RuntimeError):
        need_data(data)
        config = _config(training, bool(model), pairs)
        run_training(out, data, model, pairs, training.device, config, training.quiet)


if __name__ == "__main__":
    app()
