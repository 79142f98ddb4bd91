"""The inputs of a call that is captured once and replayed: one shape, at addresses that stay.

Knows buffers. Does not know how a call is captured, nor what it computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from core.packing import Pass


@dataclass(frozen=True)
class Shape:
    """What a captured call was made for."""

    num_rows: int
    num_queries: int
    key_length: int
    source_key_length: int
    need_hidden: bool


class StaticPass:
    """The inputs of one shape: `batch` on the device, and its twin on the host that `fill` writes."""

    def __init__(self, shape: Shape, dtype: torch.dtype, device: torch.device) -> None:
        rows, queries = shape.num_rows, shape.num_queries
        layout: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            "lengths": ((rows,), torch.int64),
            "source_lengths": ((rows,), torch.int64),
            "tokens": ((rows, queries), torch.int64),
            "positions": ((rows, queries), torch.int64),
            "tree_mask": ((rows, queries, queries + 1), dtype),
        }
        size = sum(prod(sizes) * kind.itemsize for sizes, kind in layout.values())
        on_gpu = device.type == "cuda"
        self._host = torch.zeros(size, dtype=torch.uint8, pin_memory=on_gpu)
        self._device = torch.zeros(size, dtype=torch.uint8, device=device)
        self._inputs = _views(self._host, layout)
        self._copied = torch.cuda.Event() if on_gpu else None
        # Without host lengths a pass cannot take the short cuts that would bake them into a captured call.
        self.batch = Pass(
            **_views(self._device, layout),
            host_lengths=(),
            key_length=shape.key_length,
            source_key_length=shape.source_key_length,
        )

    def fill(self, batch: Pass) -> None:
        """Copy a pass in, with one host-to-device copy. Padding rows become token 0 at position 0 of slot 0."""
        if self._copied is not None:
            self._copied.synchronize()
        num_rows = batch.tokens.shape[0]
        for name, static in self._inputs.items():
            given: torch.Tensor | None = getattr(batch, name)
            if given is not None:
                static[:num_rows] = given
                static[num_rows:] = 0
        self._device.copy_(self._host, non_blocking=True)
        if self._copied is not None:
            self._copied.record()


def _views(buffer: torch.Tensor, layout: dict[str, tuple[tuple[int, ...], torch.dtype]]) -> dict[str, Any]:
    """Tensors that lie one behind the other in a buffer of bytes; the widest numbers come first."""
    views, start = {}, 0
    for name, (sizes, kind) in layout.items():
        end = start + prod(sizes) * kind.itemsize
        views[name] = buffer[start:end].view(kind).view(sizes)
        start = end
    return views
