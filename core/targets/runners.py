"""How a target's passes reach its device: as they come, or in few shapes at fixed addresses.

Knows passes and buckets. Does not know model families, nor how a call is captured (`cuda_graphs`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol

import torch

from core.cache import RaggedCache
from core.packing import Pass
from core.targets.static_pass import Shape, StaticPass

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class PassOutput:
    """`logits` [M, V] of all queries, those of a row side by side: row b's begin at `offsets[b]`.

    `hidden` [M, hidden size]: the last layer's, where it was asked for. `is_cold`: the call prepared its shape
    first, so the time it took says nothing.
    """

    logits: torch.Tensor
    offsets: Seq[int] = (0,)
    hidden: torch.Tensor | None = None
    is_cold: bool = False

    @classmethod
    def padded(cls, logits: torch.Tensor, hidden: torch.Tensor | None = None) -> PassOutput:
        """From `logits` [B, T, V] and `hidden` [B, T, hidden size] of rows that are all T queries wide."""
        num_rows, num_queries = logits.shape[:2]
        flat = None if hidden is None else hidden.flatten(0, 1)
        return cls(logits.flatten(0, 1), range(0, num_rows * num_queries, num_queries), flat)

    def row_logits(self, row: int, num_queries: int) -> torch.Tensor:
        """The logits [num_queries, V] of one row's first queries: the pending token's, then its nodes'."""
        return self.logits[self.offsets[row] : self.offsets[row] + num_queries]

    def row_hidden(self, row: int, num_queries: int) -> torch.Tensor | None:
        """The hidden states [num_queries, hidden size] of one row's first queries, where they were asked for."""
        if self.hidden is None:
            return None
        return self.hidden[self.offsets[row] : self.offsets[row] + num_queries]


Call = Callable[[Pass, bool], PassOutput]
"""(pass on the model's device, whether hidden states are wanted) -> output"""

Replay = Callable[[], PassOutput]
Capture = Callable[[Replay], Replay]
"""Turns a call without arguments into one that does the same work again, on the same addresses."""


class Runner(Protocol):
    """Rounds shapes and makes the model's call. Passes are packed on `pack_device`."""

    pack_device: torch.device

    def row_bucket(self, num_rows: int) -> int: ...

    def query_bucket(self, num_queries: int) -> int: ...

    def key_bucket(self, length: int) -> int: ...

    def source_bucket(self, length: int) -> int: ...

    def run(self, call: Call, batch: Pass, need_hidden: bool) -> PassOutput: ...


class EagerRunner:
    """The call as it is. Shapes are rounded so that oneDNN, which prepares a kernel for each, meets few."""

    def __init__(self, device: torch.device) -> None:
        self.pack_device = device

    def row_bucket(self, num_rows: int) -> int:
        """No row is added."""
        return num_rows

    def query_bucket(self, num_queries: int) -> int:
        """1, 2, 3, 4, then multiples of 4 up to 32, then of 16."""
        if num_queries <= 4:
            return num_queries
        step = 4 if num_queries <= 32 else 16
        return -(-num_queries // step) * step

    def key_bucket(self, length: int) -> int:
        """Multiples of 32."""
        return -(-length // 32) * 32

    def source_bucket(self, length: int) -> int:
        return self.key_bucket(length)

    def run(self, call: Call, batch: Pass, need_hidden: bool) -> PassOutput:
        return call(batch, need_hidden)


class StaticRunner:
    """Few shapes, each captured at its first use, then filled and replayed.

    Passes are packed on the host. A captured call reads every number from buffers that keep their address (one
    host-to-device copy fills them) and works on rows in slots 0.., padded up to the bucket with inactive slots
    behind the active ones. When a cache has moved, everything captured is void. Passes that are not worth a
    capture, or start at another slot (prompt reading, a second look at one row), run as they come.
    """

    #: Above so many queries the device is busy with arithmetic; launching kernels one by one costs nothing more.
    max_queries: int = 2048

    def __init__(
        self, capture: Capture, caches: Seq[RaggedCache], dtype: torch.dtype, device: torch.device
    ) -> None:
        self.pack_device = torch.device("cpu")
        #: Why nothing can be captured, once that is known.
        self.obstacle: str | None = None
        self._capture = capture
        self._caches = caches
        self._dtype = dtype
        self._device = device
        self._captured: dict[Shape, tuple[StaticPass, Replay]] = {}
        self._too_large: set[Shape] = set()
        self._places: dict[str, torch.Tensor] = {}
        self._addresses: list[tuple[int, torch.Size]] = []

    @property
    def shapes(self) -> list[Shape]:
        """What is captured now."""
        return list(self._captured)

    def row_bucket(self, num_rows: int) -> int:
        """Powers of two."""
        return power_of_two(num_rows) if num_rows else 0

    def query_bucket(self, num_queries: int) -> int:
        """Powers of two up to 128; above that only prompts are read, in multiples of 64."""
        return power_of_two(num_queries) if num_queries <= 128 else -(-num_queries // 64) * 64

    def key_bucket(self, length: int) -> int:
        """256, 384, 512, 768, 1024, ...: at most half as much again as is needed."""
        return _half_octaves(length, 256)

    def source_bucket(self, length: int) -> int:
        """32, 48, 64, 96, ...: the encoder's work grows with it."""
        return _half_octaves(length, 32)

    @torch.inference_mode()
    def run(self, call: Call, batch: Pass, need_hidden: bool) -> PassOutput:
        num_rows, num_queries = batch.tokens.shape
        bucket = self.row_bucket(num_rows)
        shape = Shape(bucket, num_queries, batch.key_length, batch.source_key_length, need_hidden)
        if not self._is_worthwhile(batch, shape):
            return call(batch.to(self._device), need_hidden)
        self._forget_moved()
        is_cold = shape not in self._captured
        if is_cold and not self._prepare(call, batch, shape):
            return call(batch.to(self._device), need_hidden)
        static, replay = self._captured[shape]
        static.fill(batch)
        output = replay()
        # The next replay, whatever its shape, writes to the same place.
        end = num_rows * num_queries
        hidden = None if output.hidden is None else output.hidden[:end].clone()
        return PassOutput(output.logits[:end].clone(), output.offsets[:num_rows], hidden, is_cold)

    def _is_worthwhile(self, batch: Pass, shape: Shape) -> bool:
        return (
            self.obstacle is None
            and shape not in self._too_large
            and batch.first_slot == 0
            and shape.num_rows * shape.num_queries <= self.max_queries
            and all(cache.num_slots >= shape.num_rows for cache in self._caches)
        )

    def _forget_moved(self) -> None:
        addresses = [(cache.data.data_ptr(), cache.data.shape) for cache in self._caches]
        if addresses != self._addresses:
            self._captured.clear()
            self._addresses = addresses

    def _prepare(self, call: Call, batch: Pass, shape: Shape) -> bool:
        """Capture a shape on the pass that came first; returns whether that was possible."""
        static = StaticPass(shape, self._dtype, self._device)
        static.fill(batch)

        def call_static() -> PassOutput:
            output = call(static.batch, shape.need_hidden)
            hidden = None if output.hidden is None else self._stored("hidden", output.hidden)
            return PassOutput(self._stored("logits", output.logits), output.offsets, hidden)

        try:
            replay = self._capture(call_static)
        except torch.OutOfMemoryError:
            self._too_large.add(shape)
            return False
        except RuntimeError as error:
            # A model may look at its numbers on the host, which no capture allows; it runs all the same.
            self.obstacle = str(error)
            self._captured.clear()
            _LOG.warning("passes run without CUDA graphs from here on: %s", error)
            return False
        self._captured[shape] = (static, replay)
        return True

    def _stored(self, name: str, output: torch.Tensor) -> torch.Tensor:
        """Copy an output to the place that all shapes share: kept for each shape, the logits of a large
        vocabulary would fill the device. What was captured before a larger one came keeps the smaller place."""
        place = self._places.get(name)
        if place is None or place.numel() < output.numel():
            place = self._places[name] = output.new_empty(output.numel())
        return place[: output.numel()].view(output.shape).copy_(output)


def call_again(call: Replay) -> Replay:
    """A capture for devices without graphs: the call is made again."""
    call()
    return call


def power_of_two(number: int) -> int:
    """The smallest power of two that is not less."""
    return 1 << (number - 1).bit_length()


def _half_octaves(number: int, lowest: int) -> int:
    """The smallest of `lowest` times 1, 1.5, 2, 3, 4, 6, ... that is not less."""
    size = lowest
    while size < number:
        if 3 * size // 2 >= number:
            return 3 * size // 2
        size *= 2
    return size
