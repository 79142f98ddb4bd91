"""One training run as the commands make it: prepared, resumed, trained, exported, drawn."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.alignment.config import AlignConfig
from core.training import Progress, Trainer, draw_curve

Log = Callable[[str], None]


class ModuleTrainer(Trainer):
    """A trainer of parts that are no transformers models: they save themselves."""

    def export(self, folder: Path) -> None:
        """The averaged part in float32, as it is trained."""
        self.average.save(folder)
        self.log(f"exported step {self.progress.step} to {folder}")


def run_training(
    trained: Any,
    objective: Any,
    out: Path,
    config: AlignConfig,
    tokenizer: Any,
    device: str,
    trainer_class: type[Trainer] = Trainer,
) -> Progress:
    """Train until the budget is spent, going on from what `out` holds; `out/export` is the averaged model."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "train.log").open("a", encoding="utf-8", buffering=1) as journal:

        def log(line: str) -> None:
            journal.write(line + "\n")
            print(line, file=sys.stderr, flush=True)

        save = None if tokenizer is None else tokenizer.save_pretrained
        trainer = trainer_class(trained, objective, out, config, log, save, device)
        log(json.dumps({"device": str(trainer.device), **asdict(config)}))
        trainer.resume()
        try:
            progress = trainer.run()
        except KeyboardInterrupt:
            trainer.save()
            log("stopped; the same command goes on from here")
            raise
    draw_curve(out / "progress.json", out / "loss.png", unit="million tokens")
    return progress
