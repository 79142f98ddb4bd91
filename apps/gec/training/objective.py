"""What the correction model learns from: batches of pairs in two phases, corrected places weighted up.

The loop around it is `core.training`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from core.training import Held, LoopConfig, Progress, ShardFeed, mixed_precision

from .batches import Batch, Shard, batches


@dataclass(frozen=True)
class TrainConfig(LoopConfig):
    """Everything a run can be told; the command line takes its defaults from here."""

    batch_tokens: int = 4096
    early_batch_tokens: int = 2048
    early_share: float = 0.10
    edit_weight: float = 2.5
    final_edit_weight: float = 1.2
    real_share: float = 0.05
    final_real_share: float = 0.25
    # Once copying is learnt, right sentences teach little; at the end they bring the caution back.
    clean_share: float = 0.22
    final_clean_share: float = 0.45
    final_identity: float = 0.45
    shard_size: int = 40_000


def weighted_loss(logits: Tensor, batch: Batch, edit_weight: float) -> tuple[Tensor, Tensor]:
    """The loss with corrected places weighted up, and the plain mean beside it."""
    flat = F.cross_entropy(
        logits.flatten(0, 1), batch.labels.flatten(), reduction="none", ignore_index=-100
    ).float()
    real = (batch.labels >= 0).float().flatten()
    weights = real * (1.0 + (edit_weight - 1.0) * batch.edited.flatten())
    return (flat * weights).sum() / weights.sum(), flat.detach().sum() / real.sum()


class CorrectionObjective:
    """Pairs from a feed of shards: main ones, and final ones in the last share of the budget."""

    def __init__(self, feed: ShardFeed, config: TrainConfig, pad: int, start: int) -> None:
        self.feed, self.config, self.pad, self.start = feed, config, pad, start

    def forward(self, batch: Batch, model: Any) -> Tensor:
        """Logits of a batch, in bf16 where the device has it."""
        with mixed_precision(batch.source.device):
            inputs: dict[str, Any] = {"input_ids": batch.source, "attention_mask": batch.mask}
            inputs |= {"decoder_input_ids": batch.decoder_input, "use_cache": False}
            if hasattr(model, "final_logits_bias"):
                # BART adds a bias of zeros in float32, which doubles the cost of the largest tensor there is.
                logits: Tensor = model.lm_head(model.model(**inputs).last_hidden_state)
            else:
                logits = model(**inputs).logits
            return logits

    def loss(self, model: Any, batch: Batch, fraction: float) -> tuple[Tensor, Tensor]:
        """The weighted loss of a batch and its plain mean."""
        config = self.config
        weight = config.final_edit_weight if fraction > 1 - config.final_share else config.edit_weight
        return weighted_loss(self.forward(batch, model), batch, weight)

    def _shard(self, progress: Progress, fraction: float) -> tuple[Path, int, bool]:
        """The next shard, its number, and whether it belongs to the last phase; the one after is begun."""
        config = self.config
        final = {"real_share": config.final_real_share, "clean_share": config.final_clean_share}
        final["real_identity"] = config.final_identity
        last = fraction > 1 - config.final_share
        kind, index = ("final", progress.final_shard) if last else ("main", progress.shard)
        path = self.feed.wait(self.feed.prepare(kind, index, **(final if last else {})))
        self.feed.prepare(kind, index + 1, **(final if last else {}))
        if not last and fraction > 1 - config.final_share - 0.15:
            self.feed.prepare("final", progress.final_shard, **final)
        return path, index, last

    def batches(self, progress: Progress, fraction: Callable[[], float]) -> Iterator[Batch]:
        """Batches without end; the first ones are smaller."""
        config = self.config
        while True:
            spent = fraction()
            path, index, last = self._shard(progress, spent)
            shard = Shard(path)
            path.unlink(missing_ok=True)
            tokens = config.early_batch_tokens if spent < config.early_share else config.batch_tokens
            if last:
                progress.final_shard += 1
            else:
                progress.shard += 1
            for batch in batches(shard, tokens, self.pad, self.start, seed=config.seed + index):
                yield batch
                if not last and fraction() > 1 - config.final_share:
                    break

    @torch.no_grad()
    def held_out(self, model: Any, device: torch.device) -> Held | None:
        """Plain loss on the held-out shard, where there is one."""
        path = self.feed.path("held", 0)
        if not path.exists():
            return None
        total = tokens = 0.0
        for batch in batches(Shard(path), self.config.batch_tokens, self.pad, self.start, seed=0):
            on_device = batch.to(device)
            _, plain = weighted_loss(self.forward(on_device, model), on_device, 1.0)
            total += float(plain) * batch.tokens
            tokens += batch.tokens
        return Held(total / max(tokens, 1))

    def close(self) -> None:
        """Stops the making of shards."""
        self.feed.close()
