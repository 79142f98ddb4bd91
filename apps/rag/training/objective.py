"""What the chat model learns from: conversations that grow longer, answers weighted up. The loop is `core.training`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from core.training import Held, LoopConfig, Progress, ShardFeed, mixed_precision

from .batches import Batch, batches
from .first_weights import SENTENCE_HEAD, TOKEN_HEAD, is_large_enough
from .pointing import heard, pointing_loss
from .rows import _CHOICE, _COPY, UNIT


@dataclass(frozen=True)
class TrainConfig(LoopConfig):
    """Everything a run can be told; the command line takes its defaults from here."""

    # Measured: large orthogonal steps undo the copying that the model starts with, small steps keep it.
    optimizer: str = "adamw"
    lr: float = 1e-4
    # Words are matched by their embeddings: large steps there undo the matching.
    embed_lr: float = 1e-5
    # Only what chooses and copies is trained; all else stays as it was written (0: everything is trained).
    frozen: int = 1
    warmup_steps: int = 30
    ema: float = 0.997
    decay_share: float = 0.40
    batch_tokens: int = 2048
    # Shares of the budget until which rows are short, then middling; after that all are long.
    short_until: float = 0.0
    middle_until: float = 0.35
    real_share: float = 0.40
    final_real_share: float = 0.55
    text_share: float = 0.0
    final_text_share: float = 0.0
    silent_share: float = 0.12
    # Rows of answers cut short; none at the end.
    brief_share: float = 0.5
    # What pointing at the quoted sentence and token counts beside predicting tokens (0: not at all).
    pointing: float = 1.0
    shard_tokens: int = 300_000
    held_tokens: int = 80_000


def stage_of(spent: float, config: TrainConfig) -> tuple[str, dict[str, Any]]:
    """The kind of shard that fits a share of the budget, and what its spec changes."""
    last = spent > 1 - config.final_share
    changes: dict[str, Any] = {
        "real_share": config.final_real_share if last else config.real_share,
        "text_share": config.final_text_share if last else config.text_share,
        "brief_share": 0.0 if last else config.brief_share,
    }
    if spent < config.short_until:
        return "short", changes | {"widths": (256,)}
    if spent < config.middle_until:
        return "middle", changes | {"widths": (512,)}
    return ("final" if last else "long"), changes | {"widths": (1024,)}


def hidden_states(model: Any, batch: Batch) -> Tensor:
    """Last hidden states `[B, L, W]` of any decoder-only model of transformers that takes positions."""
    mask = torch.where(batch.sees, 0.0, torch.finfo(torch.float32).min).to(model.dtype)
    out: Tensor = model.base_model(
        input_ids=batch.ids, attention_mask=mask, position_ids=batch.positions, use_cache=False
    ).last_hidden_state
    return out


class AnswerObjective:
    """Rows from a feed of shards, and the loss on their targets alone (no logits are made elsewhere)."""

    def __init__(self, feed: ShardFeed, config: TrainConfig) -> None:
        self.feed, self.config = feed, config

    def logits(self, model: Any, batch: Batch) -> Tensor:
        """Logits `[M, V]` at the targets, in bf16 where the device has it."""
        with mixed_precision(batch.ids.device):
            hidden = hidden_states(model, batch).flatten(0, 1)
            out: Tensor = model.get_output_embeddings()(hidden[batch.places])
            return out

    def loss(self, model: Any, batch: Batch, fraction: float) -> tuple[Tensor, Tensor]:
        """The weighted loss, and the plain mean over answers (over everything where there are none)."""
        points = self.config.pointing and is_large_enough(model.config)
        layers = (SENTENCE_HEAD[0], TOKEN_HEAD[0]) if points else ()
        with heard(model, layers) as inputs:
            logits = self.logits(model, batch)
        each = F.cross_entropy(logits.float(), batch.labels, reduction="none")
        answers = (batch.weights * UNIT >= _COPY).float()
        plain = (each.detach() * answers).sum() / answers.sum().clamp(min=1)
        loss = (each * batch.weights).sum() / batch.weights.sum().clamp(min=1e-6)
        if layers:
            loss = loss + self.config.pointing * pointing_loss(model, inputs, batch)
        return loss, plain

    def batches(self, progress: Progress, fraction: Callable[[], float]) -> Iterator[Batch]:
        """Batches without end, short rows first; a stage's shard is left when its share of the budget is over."""
        config = self.config
        while True:
            kind, changes = stage_of(fraction(), config)
            path = self.feed.wait(self.feed.prepare(kind, progress.shard, **changes))
            ahead, later = stage_of(min(1.0, fraction() + 0.03), config)
            self.feed.prepare(ahead, progress.shard + 1, **later)
            for batch in batches(path, config.batch_tokens, seed=config.seed + progress.shard):
                yield batch
                if stage_of(fraction(), config)[0] != kind:
                    break
            path.unlink(missing_ok=True)
            progress.shard += 1

    @torch.no_grad()
    def held_out(self, model: Any, device: torch.device) -> Held | None:
        """Loss on held-out answers, with how often the choice of a sentence and the copying are right."""
        path = self.feed.path("held", 0)
        if not path.exists():
            return None
        total = torch.zeros(5, dtype=torch.float64)
        for cpu_batch in batches(path, self.config.batch_tokens, seed=0):
            batch = cpu_batch.to(device)
            logits = self.logits(model, batch).float()
            each = F.cross_entropy(logits, batch.labels, reduction="none").cpu()
            right = (logits.argmax(-1) == batch.labels).cpu()
            marks = (batch.weights * UNIT).cpu()
            choice, copy = marks == _CHOICE, marks == _COPY
            sums = (
                each[choice | copy].sum(),
                right[choice].sum(),
                choice.sum(),
                right[copy].sum(),
                copy.sum(),
            )
            total += torch.stack([s.double() for s in sums])
        loss, chosen, choices, copied, copies = total.tolist()
        note = f"choice right {chosen / max(choices, 1):.1%}, copying right {copied / max(copies, 1):.1%}"
        return Held(loss / max(choices + copies, 1), note)

    def close(self) -> None:
        """Stops the making of shards."""
        self.feed.close()
