"""Training of heads on a frozen target: blockwise and Medusa heads, and EAGLE's autoregressive head.

Knows the heads' modules, a target's model and batches. The loop around it is `core.training`.

Sources: Stern et al. 1811.03115 (blockwise), Cai et al. 2401.10774 (Medusa), Li et al. 2401.15077 (EAGLE).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from core.alignment.config import LIKELIHOOD, AlignConfig
from core.alignment.divergences import DIVERGENCES
from core.alignment.examples import Example, Layout, TextBatch, batches
from core.alignment.forward import states
from core.alignment.objective import ExampleObjective
from core.drafters.eagle_head import EagleHead
from core.drafters.medusa_heads import MedusaHeads
from core.drafters.model_parts import ModelParts
from core.training import Held

#: What a head further ahead counts, of the one before it (Medusa).
_DECAY = 0.8
#: What the distribution counts beside the state, and how far states are shaken (EAGLE).
_DISTRIBUTION_WEIGHT, _NOISE = 0.1, 0.1


class HeadObjective(ExampleObjective, ABC):
    """The target stays as it is; what is lost on its states, the two below know."""

    def __init__(self, target: Any, examples: Seq[Example], config: AlignConfig) -> None:
        super().__init__(examples, Layout.of(target), config)
        self.target = target
        self.parts = ModelParts(target)

    @abstractmethod
    def loss(self, model: Any, batch: TextBatch, fraction: float) -> tuple[Tensor, Tensor]:
        """What is minimised, and the plain mean that is logged."""

    @torch.no_grad()
    def held_out(self, model: Any, device: torch.device) -> Held | None:
        """The loss on held-out examples, and how often the heads' best tokens are the target's."""
        total, count = 0.0, 0
        hits: list[Tensor] = []
        for batch in batches(self.held, self.layout, self.config.batch_tokens):
            here = batch.to(device)
            total += float(self.loss(model, here, 1.0)[1]) * here.tokens
            count += here.tokens
            hits.append(self.hits(model, here))
        rates = torch.stack(hits).sum(0)
        words = ", ".join(f"{right / max(asked, 1):.3f}" for right, asked in rates.tolist())
        return Held(total / count, f"guessed {words}")

    @abstractmethod
    def hits(self, model: Any, batch: TextBatch) -> Tensor:
        """How many guesses were the target's best token, and of how many: [guesses ahead, 2]."""

    def _states(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """The target's hidden states [B, T, hidden size] and logits [B, T, V]."""
        self.target.to(batch.inputs.device)
        return states(self.target, batch)


class MedusaObjective(HeadObjective):
    """Head k learns what the target says k + 1 places on: its tokens (`likelihood`), or its distribution."""

    def loss(self, model: MedusaHeads, batch: TextBatch, fraction: float) -> tuple[Tensor, Tensor]:
        """Cross entropy or divergence of every head, those further ahead counting less; the plain mean of all."""
        hidden, logits = self._states(batch)
        losses, weights = [], []
        for k, (guessed, places) in enumerate(self._guesses(model, hidden, batch)):
            ahead = places.roll(k + 1, dims=1)
            if self.config.loss == LIKELIHOOD:
                each = F.cross_entropy(guessed.float(), batch.labels[ahead], reduction="none")
            else:
                each = DIVERGENCES[self.config.loss](logits[ahead], guessed)
            losses.append(each.sum() / max(len(each), 1))
            weights.append(_DECAY**k)
        found = torch.stack(losses)
        weighted = (found * torch.tensor(weights, device=found.device)).sum()
        return weighted, found.detach().mean()

    def hits(self, model: MedusaHeads, batch: TextBatch) -> Tensor:
        """For each head."""
        hidden, logits = self._states(batch)
        best = logits.argmax(-1)
        rows = []
        for k, (guessed, places) in enumerate(self._guesses(model, hidden, batch)):
            right = guessed.argmax(-1) == best[places.roll(k + 1, dims=1)]
            rows.append(torch.tensor([float(right.sum()), float(len(right))]))
        return torch.stack(rows)

    def _guesses(
        self, model: MedusaHeads, hidden: Tensor, batch: TextBatch
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Of each head: its logits [M, V], and the places [B, T] behind which they were made (M are True)."""
        written = batch.labels >= 0
        guessed = model(hidden[written], self.parts.output_weight)
        for k, logits in enumerate(guessed):
            # Behind place i head k guesses what follows place i + k + 1, which must be in the text.
            inside = written & written.roll(-(k + 1), dims=1)
            inside[:, -(k + 1) :] = False
            yield logits[inside[written]], inside


class EagleObjective(HeadObjective):
    """The head learns the target's next hidden state, and what the target makes of it."""

    def loss(self, model: EagleHead, batch: TextBatch, fraction: float) -> tuple[Tensor, Tensor]:
        """Smooth L1 between states plus a tenth of the cross entropy between distributions."""
        hidden, logits = self._states(batch)
        guessed, places = self._guess(model, hidden, batch)
        near = F.smooth_l1_loss(guessed, hidden[:, 1:][places])
        wanted = logits[:, 1:][places].softmax(-1)
        said = self.parts.logits(guessed).log_softmax(-1)
        spread = -(wanted * said).sum(-1).mean()
        loss = near + _DISTRIBUTION_WEIGHT * spread
        return loss, loss.detach()

    def hits(self, model: EagleHead, batch: TextBatch) -> Tensor:
        """One guess ahead."""
        hidden, logits = self._states(batch)
        guessed, places = self._guess(model, hidden, batch)
        right = self.parts.logits(guessed).argmax(-1) == logits[:, 1:][places].argmax(-1)
        return torch.tensor([[float(right.sum()), float(len(right))]])

    def _guess(self, model: EagleHead, hidden: Tensor, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """The head's states [M, hidden size] one place on, at the M of the places [B, T-1] whose token counts."""
        before = hidden[:, :-1]
        if model.training:
            before = before + (torch.rand_like(before) * 2 - 1) * _NOISE
        guessed, _ = model(before, self.parts.embed(batch.inputs[:, 1:]))
        places = (batch.labels >= 0)[:, 1:]
        return guessed[places], places


def new_heads(kind: str, target: Any, num_heads: int) -> MedusaHeads | EagleHead:
    """Untrained heads for a target. Raises ValueError for a kind that is none of blockwise, medusa and eagle."""
    parts = ModelParts(target)
    vocab_size = parts.output_weight.shape[0]
    if kind == "eagle":
        return EagleHead(parts.hidden_size, parts.embedding.shape[1])
    if kind == "blockwise":
        return MedusaHeads(parts.hidden_size, vocab_size, num_heads, shares_output=True)
    if kind == "medusa":
        heads = MedusaHeads(parts.hidden_size, vocab_size, num_heads)
        heads.start_from(parts.output_weight)
        return heads
    raise ValueError(f"no heads of kind {kind!r}; there are blockwise, medusa and eagle")


def objective_of(
    heads: MedusaHeads | EagleHead, target: Any, examples: Seq[Example], config: AlignConfig
) -> HeadObjective:
    """The objective that trains these heads."""
    kind = EagleObjective if isinstance(heads, EagleHead) else MedusaObjective
    return kind(target, examples, config)
