"""Trains the chat model: `python -m apps.rag.train` (from scratch, or a model of your own)."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.option_groups import takes_groups
from apps.places import SHARED_DATA
from apps.printing import told
from apps.rag.training.documents import need_data
from apps.training_command import Out, TrainingOptions, journal, run

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from apps.rag.training.objective import TrainConfig

# Threads that wait must sleep, not spin: beside another busy process, spinning makes a step ten times longer.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
_VOCAB_SIZE = 16384


def _load_model(model: str, tokenizer: Any, out: Path) -> PreTrainedModel:
    from apps.rag.training.model import build_model, small_config
    from apps.rag.training.prepare import load_weights

    if not model:
        return build_model(small_config(len(tokenizer)), tokenizer, weights=load_weights(out))
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
            raise ValueError(
                f"{model} has no chat template, which conversations are laid out with; give an instruct model"
            )
        tokenizer.save_pretrained(folder)
    if needs_text:
        prepare(data, out, _VOCAB_SIZE)
    return AutoTokenizer.from_pretrained(folder)


def run_training(
    out: Path, data: Path, model: str, pairs: str, device: str, config: TrainConfig, quiet: bool = False
) -> None:
    """Prepares, resumes, trains, exports and draws."""
    from apps.rag.training.first_weights import is_large_enough
    from apps.rag.training.model import ask_for_float32, freeze
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
    with journal(out, quiet) as log:
        objective = AnswerObjective(feed, config)
        loaded = _load_model(model, tokenizer, out)
        is_written = is_large_enough(loaded.config)
        if config.frozen and is_written:
            freeze(loaded)

        def complete(folder: Path) -> None:
            tokenizer.save_pretrained(folder)
            if is_written:
                ask_for_float32(folder)

        trainer = Trainer(loaded, objective, out, config, log, complete, device)
        log(json.dumps({"device": str(trainer.device), "model": model or "new", **asdict(config)}))
        trainer.resume()
        try:
            run(trainer, quiet)
        finally:
            feed.close()
    draw_curve(out / "progress.json", out / "loss.png", "million tokens read")


def _config(training: TrainingOptions, is_tuning: bool) -> TrainConfig:
    from apps.rag.training.objective import TrainConfig

    # The layers and heads of another model have work of their own.
    base = replace(TrainConfig(), pointing=0.0, frozen=0) if is_tuning else TrainConfig()
    return training.config(base, is_tuning=is_tuning)


@app.command()
@takes_groups
def main(
    *,
    out: Out,
    data: Annotated[
        Path,
        typer.Option(
            help="Folder with text/, passages/ and qa/.", show_default="../shared/data, beside this"
        ),
    ] = SHARED_DATA,
    model: Annotated[str, typer.Option(help="Fine-tune this instruct model (path or hub id) instead.")] = "",
    pairs: Annotated[
        str, typer.Option(help='Your own questions: JSONL of {"question", "passages", "answer"}.')
    ] = "",
    training: TrainingOptions,
) -> None:
    """Train chat-small, or fine-tune your own model to quote and cite."""
    with told(FileNotFoundError, ValueError, RuntimeError):
        config = _config(training, bool(model))
        if not pairs:
            need_data(data)
        run_training(out, data, model, pairs, training.device, config, training.quiet)


if __name__ == "__main__":
    app()
