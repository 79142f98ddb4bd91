"""Self-speculative decoding: the target with layers left out drafts for the whole of it (Zhang et al. 2309.08168)."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

from core.drafters.model_drafting import ModelDrafter
from core.drafters.partial_model import TargetSlots, num_layers, with_layers
from core.targets.base import Target


class LayerSkip(ModelDrafter):
    """`skip` names the decoder's layers that are left out, from 0 on; by default every second one.

    `options` are those of `TreeDrafter`. Memory: none for rows, which stay in the target's cache. Raises ValueError
    for layers that the model does not have or cannot do without.
    """

    def __init__(self, target: Target, skip: Seq[int] | None = None, **options: Any) -> None:
        total = num_layers(target)
        skip = range(1, total, 2) if skip is None else skip
        unknown = [layer for layer in skip if not 0 <= layer < total]
        if unknown:
            raise ValueError(f"skip={list(skip)} names layer {unknown[0]}; the decoder has 0..{total - 1}")
        kept = [layer for layer in range(total) if layer not in set(skip)]
        super().__init__(target, TargetSlots(with_layers(target, kept)), **options)
