"""The training loop: a wall-clock budget that drives the schedule, checkpoints, averages, exports, a log.

The same code runs on CPU and CUDA. Time is counted per step and a step counts a few seconds at most, so a run
that is paused (or shares its machine) keeps its schedule. What a batch is and what is lost on it, the objective knows.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from core.loading import pick_device

from .checkpoints import newest_checkpoint, read_checkpoint, save_checkpoint
from .config import LoopConfig
from .objective import Batch, Objective
from .optimizer import make_optimizers
from .schedule import rate_factor, seconds_until

Log = Callable[[str], None]


@dataclass
class Progress:
    """Where a run stands; saved with every checkpoint. `shard` and `final_shard` count what was drawn from."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    shard: int = 0
    final_shard: int = 0
    best: float = float("inf")
    worse: int = 0
    curve: list[tuple[int, int, float, float]] = field(default_factory=list)
    held: list[tuple[int, int, float]] = field(default_factory=list)


class Trainer:
    """One run: model, averages, optimizers, objective, and the folder they are saved in."""

    def __init__(
        self,
        model: PreTrainedModel,
        objective: Objective[Any],
        out: Path,
        config: LoopConfig,
        log: Log = print,
        save_tokenizer: Callable[[Path], object] | None = None,
        device: str = "auto",
    ) -> None:
        self.device = pick_device(device)
        if config.threads:
            torch.set_num_threads(config.threads)
        self.model: Any = model
        self.model.to(self.device)
        self.average = copy.deepcopy(self.model).requires_grad_(False)
        self.optimizers = make_optimizers(self.model, config.optimizer, config.lr, config.embed_lr)
        self.objective, self.out, self.config, self.log = objective, out, config, log
        self.save_tokenizer = save_tokenizer
        self.progress = Progress()
        self.clipped = list(self.model.parameters())

    # --- time --------------------------------------------------------------------------------

    def budget(self) -> float:
        """Seconds of training in all: the minutes asked for, or what is left until the given time of day."""
        budget = self.config.minutes * 60
        if self.config.until:
            budget = min(budget, self.progress.seconds + max(0.0, seconds_until(self.config.until)))
        return budget

    def fraction(self) -> float:
        """How much of the budget is spent."""
        budget = self.budget()
        by_time = self.progress.seconds / budget if budget else 1.0
        by_steps = self.progress.step / self.config.max_steps if self.config.max_steps else 0.0
        return max(by_time, by_steps)

    # --- steps --------------------------------------------------------------------------------

    def train_step(self, batch: Batch, fraction: float) -> float:
        """One step; returns the plain loss."""
        config = self.config
        loss, plain = self.objective.loss(self.model, batch, fraction)
        loss.backward()
        nn.utils.clip_grad_norm_(self.clipped, config.clip, foreach=True)
        factor = rate_factor(self.progress.step, fraction, config)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = optimizer.defaults["lr"] * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self._update_average()
        return float(plain)

    @torch.no_grad()
    def _update_average(self) -> None:
        step = self.progress.step
        decay = min(self.config.ema, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 1 - decay)

    def run(self, tick: Callable[[Trainer, float, float], None] | None = None) -> Progress:
        """Trains until the budget is spent, the steps are done, or the held-out loss stops falling."""
        try:
            self._train(tick)
        finally:
            self.objective.close()
        return self.progress

    def _train(self, tick: Callable[[Trainer, float, float], None] | None) -> None:
        progress, config = self.progress, self.config
        saved = exported = progress.seconds
        self.model.train()
        mean, stopped = 0.0, False
        for batch in self.objective.batches(progress, self.fraction):
            began = time.monotonic()
            fraction = self.fraction()
            if fraction >= 1.0 or stopped:
                break
            count = batch.tokens
            loss = self.train_step(batch.to(self.device), fraction)
            spent = min(time.monotonic() - began, config.longest_step)
            progress.step += 1
            progress.tokens += count
            progress.seconds += spent
            mean = loss if not mean else 0.97 * mean + 0.03 * loss
            if progress.step % 20 == 0:
                self._note(mean, fraction, count / spent)
            if tick is not None:
                tick(self, mean, count / spent)
            if progress.seconds - saved > config.checkpoint_minutes * 60:
                saved = progress.seconds
                stopped = self._pause(fraction)
            if progress.seconds - exported > config.export_minutes * 60:
                exported = progress.seconds
                self.export(self.out / "export")
        self._pause(1.0)
        self.export(self.out / "export")

    def _note(self, mean: float, fraction: float, speed: float) -> None:
        p = self.progress
        p.curve.append((p.step, p.tokens, round(p.seconds, 1), round(mean, 4)))
        if p.step % 100 == 0 or (p.step < 1000 and p.step % 50 == 0):
            clock = datetime.now(UTC).strftime("%H:%M:%S")
            average = p.tokens / max(p.seconds, 1e-9)
            self.log(
                f"{clock} step {p.step} tokens {p.tokens / 1e6:.2f}M minutes {p.seconds / 60:.1f} "
                f"loss {mean:.4f} tokens/s {speed:.0f} (mean {average:.0f}) spent {fraction:.3f}"
            )

    def _pause(self, fraction: float) -> bool:
        """Held-out loss, a checkpoint, and whether to stop early."""
        p = self.progress
        self.average.eval()
        held = self.objective.held_out(self.average, self.device)
        if held is not None:
            p.held.append((p.step, p.tokens, round(held.loss, 5)))
            p.worse = 0 if held.loss < p.best else p.worse + 1
            p.best = min(p.best, held.loss)
            note = f"; {held.note}" if held.note else ""
            self.log(
                f"held-out loss {held.loss:.4f} (best {p.best:.4f}) at step {p.step}, "
                f"{fraction:.0%} of the budget{note}"
            )
        self.save()
        return bool(self.config.patience) and p.worse >= self.config.patience

    # --- files --------------------------------------------------------------------------------

    def save(self) -> Path:
        """A checkpoint; the newest two are kept."""
        state = {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.config.optimizer,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "progress": asdict(self.progress),
        }
        path = save_checkpoint(self.out / "checkpoints", self.progress.step, state)
        (self.out / "progress.json").write_text(json.dumps(asdict(self.progress)))
        return path

    def resume(self) -> bool:
        """Goes on from the newest checkpoint, if there is one."""
        newest = newest_checkpoint(self.out / "checkpoints")
        if newest is None:
            return False
        state = read_checkpoint(newest, self.device)
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        # Another optimizer than before starts afresh from the same weights.
        if state.get("optimizer", self.config.optimizer) == self.config.optimizer:
            for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
        self.progress = Progress(**state["progress"])
        self.log(
            f"resumed {newest.name}: {self.progress.tokens / 1e6:.2f}M tokens, "
            f"{self.progress.seconds / 60:.1f} minutes"
        )
        return True

    def export(self, folder: Path) -> None:
        """The averaged model as transformers reads it, in bf16, with its tokenizer."""
        model = copy.deepcopy(self.average).to(torch.bfloat16)
        model.config.dtype = torch.bfloat16
        model.save_pretrained(folder)
        if self.save_tokenizer is not None:
            self.save_tokenizer(folder)
        self.log(f"exported step {self.progress.step} to {folder}")
