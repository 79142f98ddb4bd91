"""Trains the grammar-correction model: `python -m apps.gec.train` (from scratch, or a model of your own)."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from apps.gec.training.corpus import default_data, need_data

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from apps.gec.training.objective import TrainConfig

# Threads that wait must sleep, not spin: beside another busy process, spinning makes a step ten times longer.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

app = typer.Typer(add_completion=False, help=__doc__)
_ERR = Console(stderr=True)
DATA = default_data()


def _fail(message: str) -> None:
    _ERR.print(f"[red]error:[/red] {message}")
    raise typer.Exit(2)


def _load_model(model: str) -> PreTrainedModel:
    from apps.gec.training.model import build_model, small_config

    if not model:
        return build_model(small_config())
    from transformers import AutoModelForSeq2SeqLM

    loaded: PreTrainedModel = AutoModelForSeq2SeqLM.from_pretrained(model, dtype="float32")
    return loaded


def _tokenizer_folder(model: str, out: Path, data: Path) -> Path:
    """The tokenizer of the run: trained here, or taken from the user's model."""
    from apps.gec.training.prepare import prepare

    folder = out / "tokenizer"
    if model and not (folder / "tokenizer.json").exists():
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(model).save_pretrained(folder)
        if not (folder / "tokenizer.json").exists():
            _fail(f"{model} has no fast tokenizer (tokenizer.json), which the shards are made with")
    prepare(data, out, 8192)
    return folder


def run_training(
    out: Path, data: Path, model: str, pairs: str, device: str, config: TrainConfig, quiet: bool = False
) -> None:
    """Prepares, resumes, trains, exports and draws."""
    from transformers import AutoTokenizer

    from apps.gec.training.objective import CorrectionObjective
    from apps.gec.training.shards import ShardSpec
    from core.training import ShardFeed, Trainer, draw_curve, ticker

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
    with (out / "train.log").open("a", encoding="utf-8", buffering=1) as journal:

        def log(line: str) -> None:
            journal.write(line + "\n")
            if not quiet:
                _ERR.print(line, highlight=False, soft_wrap=True)

        tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
        loaded = _load_model(model)
        ids = loaded.config
        objective = CorrectionObjective(feed, config, ids.pad_token_id, ids.decoder_start_token_id)
        trainer = Trainer(loaded, objective, out, config, log, tokenizer.save_pretrained, device)
        log(json.dumps({"device": str(trainer.device), "model": model or "new", **asdict(config)}))
        trainer.resume()
        for number in (signal.SIGINT, signal.SIGTERM):
            # Also where a shell has set the signal to be ignored: being asked to stop means to save first.
            signal.signal(number, signal.default_int_handler)
        try:
            with ticker(_ERR, enabled=not quiet and _ERR.is_terminal) as tick:
                trainer.run(tick)
        except KeyboardInterrupt:
            trainer.save()
            log("stopped; the same command goes on from here")
            raise typer.Exit(130) from None
        finally:
            feed.close()
    draw_curve(out / "progress.json", out / "loss.png")


def _options() -> TrainConfig:
    from apps.gec.training.objective import TrainConfig

    return TrainConfig()


@app.command()
def main(
    out: Annotated[
        Path, typer.Option(help="Folder for checkpoints, log and exports (outside the repository).")
    ],
    data: Annotated[Path, typer.Option(help="Folder with text/, pairs/ and noise/.")] = DATA,
    model: Annotated[str, typer.Option(help="Fine-tune this seq2seq model (path or hub id) instead.")] = "",
    pairs: Annotated[
        str, typer.Option(help='Your own pairs: JSONL of {"src", "tgt"}, used as the real ones.')
    ] = "",
    minutes: Annotated[
        float, typer.Option(help="Budget in minutes, summed over resumes; drives the schedule.")
    ] = 60.0,
    until: Annotated[str, typer.Option(help="End at this time of day at the latest (HH:MM, UTC).")] = "",
    optimizer: Annotated[str, typer.Option(help="muon or adamw.")] = "",
    lr: Annotated[float, typer.Option(help="Peak rate; by default 2e-3, or 5e-5 when fine-tuning.")] = 0.0,
    patience: Annotated[
        int, typer.Option(help="Stop after this many checkpoints without a better held-out loss.")
    ] = -1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    threads: Annotated[int, typer.Option(help="CPU threads (0: as torch chooses).")] = 0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any other field: name=value, repeatable.")
    ] = None,
    quiet: Annotated[bool, typer.Option(help="Nothing on standard error; the log file has it all.")] = False,
) -> None:
    """Train gec-small, or fine-tune your own model on the same errors."""
    from core.training import override

    config = _options()
    try:
        need_data(data)
    except FileNotFoundError as problem:
        _fail(str(problem))
    tuned = bool(model)
    config = replace(
        config,
        minutes=minutes,
        until=until,
        threads=threads,
        optimizer=optimizer or ("adamw" if tuned else config.optimizer),
        lr=lr or (5e-5 if tuned else config.lr),
        embed_lr=lr or (5e-5 if tuned else config.embed_lr),
        real_share=0.5 if pairs else config.real_share,
        final_real_share=0.5 if pairs else config.final_real_share,
        patience=patience if patience >= 0 else (3 if tuned else 0),
    )
    try:
        config = override(config, set_ or [])
        run_training(out, data, model, pairs, device, config, quiet)
    except typer.Exit:
        # A RuntimeError too, and no mistake of the user.
        raise
    except (FileNotFoundError, ValueError, RuntimeError) as problem:
        _fail(str(problem))


if __name__ == "__main__":
    app()
