"""What the loop asks of whoever brings the data: batches, a loss, and a look at what was held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .trainer import Progress


class Batch(Protocol):
    """Tensors of one step."""

    @property
    def tokens(self) -> int:
        """How many tokens the step learns from, padding not counted."""

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""


@dataclass(frozen=True)
class Held:
    """The loss on held-out text, and anything else worth a place in the log."""

    loss: float
    note: str = ""


B = TypeVar("B", bound=Batch)


class Objective(Protocol[B]):
    """Where batches come from and what is minimised on them."""

    def batches(self, progress: Progress, fraction: Callable[[], float]) -> Iterator[B]:
        """Batches without end; `fraction()` is the share of the budget spent, `progress` counts shards."""

    def loss(self, model: Any, batch: B, fraction: float) -> tuple[Tensor, Tensor]:
        """The loss to minimise and the plain mean that is logged, both scalars."""

    def held_out(self, model: Any, device: torch.device) -> Held | None:
        """How the averaged model does on held-out batches, where there are any."""

    def close(self) -> None:
        """Ends whatever makes batches in the background."""
