"""Trains the chat model: `python -m apps.rag.train` (from scratch, or a model of your own)."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from apps.rag.training.documents import default_data, need_data

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from apps.rag.training.objective import TrainConfig
    from core.training import Trainer

# Threads that wait must sleep, not spin: beside another busy process, spinning makes a step ten times longer.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

app = typer.Typer(add_completion=False, help=__doc__)
_ERR = Console(stderr=True)
DATA = default_data()
_VOCAB_SIZE = 8192


def _fail(message: str) -> None:
    _ERR.print(f"[red]error:[/red] {message}")
    raise typer.Exit(2)


def _load_model(model: str, tokenizer: Any) -> PreTrainedModel:
    from apps.rag.training.model import build_model, small_config

    if not model:
        return build_model(small_config(len(tokenizer)), tokenizer)
    from transformers import AutoModelForCausalLM

    loaded: PreTrainedModel = AutoModelForCausalLM.from_pretrained(model, dtype="float32")
    return loaded


def _tokenizer(model: str, out: Path, data: Path, needs_text: bool) -> Any:
    """The tokenizer of the run: trained here, or taken from the user's model."""
    from transformers import AutoTokenizer

    from apps.rag.training.prepare import prepare

    folder = out / "tokenizer"
    if model and not (folder / "tokenizer.json").exists():
        tokenizer = AutoTokenizer.from_pretrained(model)
        if not tokenizer.chat_template:
            _fail(
                f"{model} has no chat template, which conversations are laid out with; give an instruct model"
            )
        tokenizer.save_pretrained(folder)
    if needs_text:
        prepare(data, out, _VOCAB_SIZE)
    return AutoTokenizer.from_pretrained(folder)


def _train(trainer: Trainer, quiet: bool) -> None:
    """Runs to the end, or saves first where it is asked to stop."""
    from core.training import ticker

    for number in (signal.SIGINT, signal.SIGTERM):
        # Also where a shell has set the signal to be ignored: being asked to stop means to save first.
        signal.signal(number, signal.default_int_handler)
    try:
        with ticker(_ERR, enabled=not quiet and _ERR.is_terminal) as tick:
            trainer.run(tick)
    except KeyboardInterrupt:
        trainer.save()
        trainer.log("stopped; the same command goes on from here")
        raise typer.Exit(130) from None
    finally:
        trainer.objective.close()


def run_training(
    out: Path, data: Path, model: str, pairs: str, device: str, config: TrainConfig, quiet: bool = False
) -> None:
    """Prepares, resumes, trains, exports and draws."""
    from apps.rag.training.objective import AnswerObjective
    from apps.rag.training.shards import ShardSpec
    from core.training import ShardFeed, Trainer, draw_curve

    out.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(model, out, data, needs_text=not pairs)
    spec = ShardSpec(
        data=str(data), documents=str(out / "documents"), tokenizer=str(out / "tokenizer"), out="",
        seed=config.seed, tokens=config.shard_tokens, silent_share=config.silent_share,
        pairs=str(Path(pairs).resolve()) if pairs else "",
    )  # fmt: skip
    feed = ShardFeed(spec, out / "shards")
    held = {"held_out": True, "tokens": config.held_tokens, "widths": (1024,), "real_share": 1.0}
    feed.wait(feed.prepare("held", 0, text_share=0.0, **held))
    with (out / "train.log").open("a", encoding="utf-8", buffering=1) as journal:

        def log(line: str) -> None:
            journal.write(line + "\n")
            if not quiet:
                _ERR.print(line, highlight=False, soft_wrap=True)

        objective = AnswerObjective(feed, config)
        loaded = _load_model(model, tokenizer)
        trainer = Trainer(loaded, objective, out, config, log, tokenizer.save_pretrained, device)
        log(json.dumps({"device": str(trainer.device), "model": model or "new", **asdict(config)}))
        trainer.resume()
        _train(trainer, quiet)
    draw_curve(out / "progress.json", out / "loss.png", "million tokens read")


def _options() -> TrainConfig:
    from apps.rag.training.objective import TrainConfig

    return TrainConfig()


@app.command()
def main(
    out: Annotated[
        Path, typer.Option(help="Folder for checkpoints, log and exports (outside the repository).")
    ],
    data: Annotated[Path, typer.Option(help="Folder with text/, passages/ and qa/.")] = DATA,
    model: Annotated[str, typer.Option(help="Fine-tune this instruct model (path or hub id) instead.")] = "",
    pairs: Annotated[
        str, typer.Option(help='Your own questions: JSONL of {"question", "passages", "answer"}.')
    ] = "",
    minutes: Annotated[
        float, typer.Option(help="Budget in minutes, summed over resumes; drives the schedule.")
    ] = 60.0,
    until: Annotated[str, typer.Option(help="End at this time of day at the latest (HH:MM, UTC).")] = "",
    optimizer: Annotated[str, typer.Option(help="muon or adamw.")] = "",
    lr: Annotated[float, typer.Option(help="Peak rate; by default 6e-4, or 5e-5 when fine-tuning.")] = 0.0,
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
    """Train chat-small, or fine-tune your own model to quote and cite."""
    from core.training import override

    config = _options()
    tuned = bool(model)
    config = replace(
        config,
        minutes=minutes,
        until=until,
        threads=threads,
        optimizer=optimizer or ("adamw" if tuned else config.optimizer),
        lr=lr or (5e-5 if tuned else config.lr),
        embed_lr=lr or (5e-5 if tuned else config.embed_lr),
        patience=patience if patience >= 0 else (3 if tuned else 0),
        # The heads of another model have work of their own.
        pointing=0.0 if tuned else config.pointing,
    )
    try:
        config = override(config, set_ or [])
        if not pairs:
            need_data(data)
        run_training(out, data, model, pairs, device, config, quiet)
    except typer.Exit:
        # A RuntimeError too, and no mistake of the user.
        raise
    except (FileNotFoundError, ValueError, RuntimeError) as problem:
        _fail(str(problem))


if __name__ == "__main__":
    app()
