"""Distillation of a target into a draft model: Seq-KD, and token-level KD on given, the target's or own outputs.

Knows models and examples. The loop around it is `core.training`.

Sources: Seq-KD, Kim and Rush 1606.07947; on-policy data and the choice of divergence, DistillSpec (Zhou et al.
2310.08461).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from core.alignment.config import LIKELIHOOD, AlignConfig
from core.alignment.divergences import DIVERGENCES, acceptance
from core.alignment.examples import Example, Layout, TextBatch, batches
from core.alignment.forward import learnt_labels, learnt_logits
from core.alignment.writing import engine_of, write
from core.training import Held, Progress


class ExampleObjective:
    """Batches of examples without end, and the last `config.held` of them held out; what is lost, others know.

    Raises ValueError where fewer than two examples fit the model.
    """

    def __init__(self, examples: Seq[Example], layout: Layout, config: AlignConfig) -> None:
        fitting = [example for example in examples if layout.fits(example)]
        if len(fitting) < 2:
            raise ValueError(
                f"{len(fitting)} of {len(examples)} examples fit the model; at least 2 are needed"
            )
        held = min(config.held, len(fitting) // 2)
        self.examples, self.held = fitting[:-held], fitting[-held:]
        self.layout, self.config = layout, config

    def batches(self, progress: Progress, fraction: Callable[[], float]) -> Iterator[TextBatch]:
        """`progress.shard` counts the times that the examples were gone through."""
        while True:
            rng = random.Random(f"{self.config.seed} {progress.shard}")
            yield from batches(self.epoch(rng), self.layout, self.config.batch_tokens, rng)
            progress.shard += 1

    def epoch(self, rng: random.Random) -> Seq[Example]:
        """What is gone through next."""
        return self.examples

    def close(self) -> None:
        """Nothing runs in the background."""


class DistillObjective(ExampleObjective):
    """`draft` is the model that the trainer trains, needed to write its own outputs; `target` is frozen."""

    def __init__(
        self,
        target: Any,
        draft: Any,
        examples: Seq[Example],
        config: AlignConfig,
        tokenizer: Any = None,
    ) -> None:
        super().__init__(examples, Layout.of(draft), config)
        self.target, self.draft, self.tokenizer = target, draft, tokenizer
        self._rng = random.Random(config.seed)
        self._own: Iterator[TextBatch] = iter(())
        self._stale_at = 0

    # -- batches --------------------------------------------------------------------------------------

    def batches(self, progress: Progress, fraction: Callable[[], float]) -> Iterator[TextBatch]:
        """Those of the examples, and between them those that the draft wrote."""
        for batch in super().batches(progress, fraction):
            while self._rng.random() < self.config.on_policy:
                yield self._own_batch(progress)
            yield batch

    def _own_batch(self, progress: Progress) -> TextBatch:
        """A batch that the draft wrote; a new lot where the last one is spent or old."""
        if progress.step >= self._stale_at:
            self._own = iter(())
            self._stale_at = progress.step + self.config.refresh
        batch = next(self._own, None)
        while batch is None:
            self._own = batches(self._write(), self.layout, self.config.batch_tokens, self._rng)
            batch = next(self._own, None)
        return batch

    def _write(self) -> list[Example]:
        config = self.config
        prompts = [example.prompt for example in self._rng.choices(self.examples, k=config.rollouts)]
        engine = engine_of(self.draft, self.tokenizer)
        seed = self._rng.randrange(1 << 30)
        written = write(engine, prompts, config.temperature, config.max_new_tokens, seed)
        return [example for example in written if self.layout.fits(example)]

    # -- losses ---------------------------------------------------------------------------------------

    def loss(self, model: Any, batch: TextBatch, fraction: float) -> tuple[Tensor, Tensor]:
        """The mean over the learnt tokens of what `config.loss` names."""
        logits = learnt_logits(model, batch)
        config = self.config
        if config.loss == LIKELIHOOD:
            loss = F.cross_entropy(logits.float(), learnt_labels(batch))
            return loss, loss.detach()
        loss = DIVERGENCES[config.loss](self._said(batch), logits).mean()
        plain = loss.detach()
        if config.likelihood_weight:
            loss = loss + config.likelihood_weight * F.cross_entropy(logits.float(), learnt_labels(batch))
        return loss, plain

    @torch.no_grad()
    def _said(self, batch: TextBatch) -> Tensor:
        self.target.to(batch.inputs.device)
        return learnt_logits(self.target, batch)

    @torch.no_grad()
    def held_out(self, model: Any, device: torch.device) -> Held | None:
        """The loss on held-out examples, and how much of the draft the target would accept."""
        total, count = 0.0, 0
        sums = torch.zeros(2, dtype=torch.float64)
        for batch in batches(self.held, self.layout, self.config.batch_tokens):
            here = batch.to(device)
            _, plain = self.loss(model, here, 1.0)
            sums += agreement(self._said(here), learnt_logits(model, here)) * here.tokens
            total += float(plain) * here.tokens
            count += here.tokens
        sampled, greedy = (sums / count).tolist()
        return Held(total / count, f"accepted {sampled:.3f} sampled, {greedy:.3f} greedy")


def agreement(target: Tensor, draft: Tensor) -> Tensor:
    """Means [2] over logits [M, V]: the acceptance of speculative sampling, and equal best tokens."""
    same = (target.argmax(-1) == draft.argmax(-1)).double().mean()
    return torch.stack([acceptance(target, draft).double().mean(), same]).cpu()
