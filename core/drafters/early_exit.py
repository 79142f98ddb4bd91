"""Early exit: what the target would say after its first layers (PPD, Yang et al. 2307.05908).

As published, the guesses at an inner layer start the next tokens while the last layers still work on this one. Here
they are a draft like others: the first layers run ahead, and one pass of the whole model checks.
"""

from __future__ import annotations

from typing import Any

from core.drafters.model_drafting import ModelDrafter
from core.drafters.partial_model import TargetSlots, with_layers
from core.drafters.partial_model import num_layers as count_layers
from core.targets.base import Target


class EarlyExit(ModelDrafter):
    """Drafts with the first `num_layers` layers of the decoder, then its norm and output; by default half of them.

    `options` are those of `TreeDrafter`. Memory: none for rows, which stay in the target's cache. Raises ValueError
    for a number of layers that the model does not have.
    """

    def __init__(self, target: Target, num_layers: int | None = None, **options: Any) -> None:
        total = count_layers(target)
        num_layers = max(1, total // 2) if num_layers is None else num_layers
        if not 1 <= num_layers <= total:
            raise ValueError(f"{num_layers=} must lie in 1..{total}")
        super().__init__(target, TargetSlots(with_layers(target, range(num_layers))), **options)
