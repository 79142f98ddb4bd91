"""Training of a non-autoregressive drafter: a small model learns to fill a block of masks behind a text in one pass, by
Seq-KD on what the target wrote (SpecDec, Xia et al. 2203.16487).

Knows examples and masks. What decoding then does with the model, `core.drafters.spec_dec` knows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence as Seq
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from core.alignment.config import AlignConfig
from core.alignment.examples import Example, Layout, TextBatch, collate
from core.alignment.forward import learnt_labels, learnt_logits
from core.alignment.objective import ExampleObjective
from core.training import Held

_ROWS = 16


class FillingObjective(ExampleObjective):
    """Every time an example is seen it is cut at another place: behind it the decoder reads the last token and
    `block_size` - 1 masks, and learns the `block_size` tokens that follow."""

    def __init__(
        self, draft: Any, examples: Seq[Example], config: AlignConfig, mask_token_id: int, block_size: int
    ) -> None:
        super().__init__(examples, Layout.of(draft), config)
        if block_size < 1:
            raise ValueError(f"{block_size=} must be at least 1")
        if not 0 <= mask_token_id < draft.get_input_embeddings().weight.shape[0]:
            raise ValueError(
                f"{mask_token_id=} is no token of the draft model; give one that texts do not use"
            )
        self._mask, self._block_size = mask_token_id, block_size

    def epoch(self, rng: random.Random) -> list[Example]:
        """All examples, each cut somewhere."""
        return [self._masked(example, rng) for example in self.examples]

    def loss(self, model: Any, batch: TextBatch, fraction: float) -> tuple[Tensor, Tensor]:
        """Cross entropy at all places of the blocks."""
        loss = F.cross_entropy(learnt_logits(model, batch).float(), learnt_labels(batch))
        return loss, loss.detach()

    @torch.no_grad()
    def held_out(self, model: Any, device: torch.device) -> Held | None:
        """The loss on held-out examples, and how often each place of a block is guessed."""
        rng = random.Random(0)
        masked = [self._masked(example, rng) for example in self.held]
        right, asked = torch.zeros(2, self._block_size, dtype=torch.float64)
        total = 0.0
        for start in range(0, len(masked), _ROWS):
            group = masked[start : start + _ROWS]
            batch = collate(group, self.layout).to(device)
            logits, labels = learnt_logits(model, batch).float(), learnt_labels(batch)
            total += float(F.cross_entropy(logits, labels, reduction="sum"))
            places = torch.tensor([place for one in group for place in range(sum(one.learnt or ()))])
            right.index_add_(0, places, (logits.argmax(-1) == labels).double().cpu())
            asked.index_add_(0, places, torch.ones(len(places), dtype=torch.float64))
        words = ", ".join(f"{rate:.3f}" for rate in (right / asked.clamp_min(1)).tolist())
        return Held(total / float(asked.sum()), f"guessed {words}")

    def _masked(self, example: Example, rng: random.Random) -> Example:
        cut = rng.randrange(len(example.output))
        output = example.output[: cut + self._block_size]
        hidden = len(output) - cut
        return Example(
            example.prompt,
            output,
            (False,) * cut + (True,) * hidden,
            output[:cut] + (self._mask,) * hidden,
        )
