"""The training loop: a wall-clock budget that drives the schedule, checkpoints, averages, exports, a log.

The same code runs on CPU and CUDA. Time is counted per step and a step counts a few seconds at most, so a run
that is paused (or shares its machine) keeps its schedule.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from .batches import Batch, Shard, batches
from .optimizer import make_optimizers
from .shards import ShardFeed

Log = Callable[[str], None]


@dataclass(frozen=True)
class TrainConfig:
    """Everything a run can be told; the command line takes its defaults from here."""

    minutes: float = 60.0
    until: str = ""
    optimizer: str = "muon"
    lr: float = 2e-3
    embed_lr: float = 2e-3
    warmup_steps: int = 200
    decay_share: float = 0.30
    final_share: float = 0.30
    batch_tokens: int = 4096
    early_batch_tokens: int = 2048
    early_share: float = 0.10
    edit_weight: float = 2.5
    final_edit_weight: float = 1.2
    ema: float = 0.995
    clip: float = 1.0
    checkpoint_minutes: float = 5.0
    export_minutes: float = 15.0
    real_share: float = 0.05
    final_real_share: float = 0.25
    # Once copying is learnt, right sentences teach little; at the end they bring the caution back.
    clean_share: float = 0.22
    final_clean_share: float = 0.45
    final_identity: float = 0.45
    shard_size: int = 40_000
    patience: int = 0
    max_steps: int = 0
    threads: int = 0
    seed: int = 1
    longest_step: float = 5.0


@dataclass
class Progress:
    """Where a run stands; saved with every checkpoint."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    shard: int = 0
    final_shard: int = 0
    best: float = float("inf")
    worse: int = 0
    curve: list[tuple[int, int, float, float]] = field(default_factory=list)
    held: list[tuple[int, int, float]] = field(default_factory=list)


def seconds_until(clock: str) -> float:
    """Seconds from now until the next HH:MM (UTC)."""
    now = datetime.now(UTC)
    hour, minute = (int(part) for part in clock.split(":"))
    then = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    gap = (then - now).total_seconds()
    # A moment that has just passed means "now", not "tomorrow".
    return gap if gap > -6 * 3600 else gap + timedelta(days=1).total_seconds()


def rate_factor(step: int, fraction: float, config: TrainConfig) -> float:
    """Warm-up, then level, then down to (almost) nothing over the last share of the budget."""
    warm = min(1.0, (step + 1) / max(1, config.warmup_steps))
    left = max(0.0, 1.0 - fraction) / config.decay_share
    return warm * min(1.0, max(left, 0.01))


def weighted_loss(logits: Tensor, batch: Batch, edit_weight: float) -> tuple[Tensor, Tensor]:
    """The loss with corrected places weighted up, and the plain mean beside it."""
    flat = F.cross_entropy(
        logits.flatten(0, 1), batch.labels.flatten(), reduction="none", ignore_index=-100
    ).float()
    real = (batch.labels >= 0).float().flatten()
    weights = real * (1.0 + (edit_weight - 1.0) * batch.edited.flatten())
    return (flat * weights).sum() / weights.sum(), flat.detach().sum() / real.sum()


class Trainer:
    """One run: model, averages, optimizers, feed of shards, and the folder they are saved in."""

    def __init__(
        self,
        model: PreTrainedModel,
        feed: ShardFeed,
        out: Path,
        config: TrainConfig,
        log: Log = print,
        save_tokenizer: Callable[[Path], object] | None = None,
        device: str = "auto",
    ) -> None:
        self.device = torch.device(
            ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        )
        if config.threads:
            torch.set_num_threads(config.threads)
        self.model: Any = model
        self.model.to(self.device)
        self.average = copy.deepcopy(self.model).requires_grad_(False)
        self.optimizers = make_optimizers(self.model, config.optimizer, config.lr, config.embed_lr)
        self.feed, self.out, self.config, self.log = feed, out, config, log
        self.save_tokenizer = save_tokenizer
        self.progress = Progress()
        self.pad: int = model.config.pad_token_id
        self.start: int = model.config.decoder_start_token_id
        self.clipped = list(self.model.parameters())
        self.began = 0.0

    # --- time --------------------------------------------------------------------------------

    def budget(self) -> float:
        """Seconds of training in all: the minutes asked for, or what is left until the given time of day."""
        budget = self.config.minutes * 60
        if self.config.until:
            budget = min(budget, self.progress.seconds + max(0.0, seconds_until(self.config.until)))
        return max(budget, 1e-6)

    def fraction(self) -> float:
        """How much of the budget is spent."""
        by_time = self.progress.seconds / self.budget()
        by_steps = self.progress.step / self.config.max_steps if self.config.max_steps else 0.0
        return max(by_time, by_steps)

    # --- steps --------------------------------------------------------------------------------

    def forward(self, batch: Batch, model: Any) -> Tensor:
        """Logits of a batch, in bf16 where the device has it."""
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            inputs: dict[str, Any] = {"input_ids": batch.source, "attention_mask": batch.mask}
            inputs |= {"decoder_input_ids": batch.decoder_input, "use_cache": False}
            if hasattr(model, "final_logits_bias"):
                # BART adds a bias of zeros in float32, which doubles the cost of the largest tensor there is.
                logits: Tensor = model.lm_head(model.model(**inputs).last_hidden_state)
            else:
                logits = model(**inputs).logits
            return logits

    def train_step(self, batch: Batch, fraction: float) -> float:
        """One step; returns the plain loss."""
        config = self.config
        weight = config.final_edit_weight if fraction > 1 - config.final_share else config.edit_weight
        loss, plain = weighted_loss(self.forward(batch, self.model), batch, weight)
        loss.backward()
        nn.utils.clip_grad_norm_(self.clipped, config.clip, foreach=True)
        factor = rate_factor(self.progress.step, fraction, config)
        for optimizer, rate in zip(self.optimizers, (config.lr, config.embed_lr), strict=False):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self._update_average()
        return float(plain)

    @torch.no_grad()
    def _update_average(self) -> None:
        step = self.progress.step
        decay = min(self.config.ema, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 1 - decay)

    def _stream(self) -> Iterator[Batch]:
        """Batches without end, from main shards and, in the last share of the budget, from final ones."""
        config, progress = self.config, self.progress
        final = {"real_share": config.final_real_share, "clean_share": config.final_clean_share}
        final["real_identity"] = config.final_identity
        while True:
            fraction = self.fraction()
            last = fraction > 1 - config.final_share
            kind, index = ("final", progress.final_shard) if last else ("main", progress.shard)
            path = self.feed.wait(self.feed.prepare(kind, index, **(final if last else {})))
            shard = Shard(path)
            self.feed.prepare(kind, index + 1, **(final if last else {}))
            if not last and fraction > 1 - config.final_share - 0.15:
                self.feed.prepare("final", progress.final_shard, **final)
            path.unlink(missing_ok=True)
            tokens = config.early_batch_tokens if fraction < config.early_share else config.batch_tokens
            if last:
                progress.final_shard += 1
            else:
                progress.shard += 1
            for batch in batches(shard, tokens, self.pad, self.start, seed=config.seed + index):
                yield batch
                if not last and self.fraction() > 1 - config.final_share:
                    break

    def run(self, tick: Callable[[Trainer, float, float], None] | None = None) -> Progress:
        """Trains until the budget is spent, the steps are done, or the held-out loss stops falling."""
        progress, config = self.progress, self.config
        saved = exported = progress.seconds
        self.model.train()
        mean, stopped = 0.0, False
        for batch in self._stream():
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
        self.feed.close()
        return progress

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
        held = self.held_out_loss()
        if held is not None:
            p.held.append((p.step, p.tokens, round(held, 5)))
            p.worse = 0 if held < p.best else p.worse + 1
            p.best = min(p.best, held)
            self.log(
                f"held-out loss {held:.4f} (best {p.best:.4f}) at step {p.step}, {fraction:.0%} of the budget"
            )
        self.save()
        return bool(self.config.patience) and p.worse >= self.config.patience

    @torch.no_grad()
    def held_out_loss(self) -> float | None:
        """Plain loss of the averaged model on the held-out shard, where there is one."""
        path = self.feed.path("held", 0)
        if not path.exists():
            return None
        self.average.eval()
        total = tokens = 0.0
        for batch in batches(Shard(path), self.config.batch_tokens, self.pad, self.start, seed=0):
            _, plain = weighted_loss(
                self.forward(batch.to(self.device), self.average), batch.to(self.device), 1.0
            )
            total += float(plain) * batch.tokens
            tokens += batch.tokens
        return total / max(tokens, 1)

    # --- files --------------------------------------------------------------------------------

    def save(self) -> Path:
        """A checkpoint; the newest two are kept."""
        folder = self.out / "checkpoints"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"step-{self.progress.step:08d}.pt"
        state = {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.config.optimizer,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "progress": asdict(self.progress),
        }
        partial = path.with_suffix(".tmp")
        torch.save(state, partial)
        partial.replace(path)
        for old in sorted(folder.glob("step-*.pt"))[:-2]:
            old.unlink()
        (self.out / "progress.json").write_text(json.dumps(asdict(self.progress)))
        return path

    def resume(self) -> bool:
        """Goes on from the newest checkpoint, if there is one."""
        found = sorted((self.out / "checkpoints").glob("step-*.pt"))
        if not found:
            return False
        state = torch.load(found[-1], map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        # Another optimizer than before starts afresh from the same weights.
        if state.get("optimizer", self.config.optimizer) == self.config.optimizer:
            for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
        self.progress = Progress(**state["progress"])
        self.log(
            f"resumed {found[-1].name}: {self.progress.tokens / 1e6:.2f}M tokens, "
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
