"""What the loop asks of a target model.

Knows the cache and the tensors of a pass. Does not know drafting, sampling or text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence as Seq
from typing import Any

import torch

from core.cache import RaggedCache
from core.packing import PackedRow, Pass, pack
from core.targets.runners import Capture, EagerRunner, PassOutput, Runner, StaticRunner, power_of_two

__all__ = ["PassOutput", "Target", "UnsupportedModelError"]

#: Share of the device's free memory that `bound` may take: a cache that grows needs its old and new self at once.
_CACHE_SHARE = 0.25


class UnsupportedModelError(ValueError):
    """The model cannot be run exactly with ragged rows and trees; the message says why."""


class Target(ABC):
    """One model with room for a running batch. Rows occupy slots 0..B-1 in the order of the engine's list.

    Subclasses run the model; the slots and the committed entries are looked after here.
    """

    is_encoder_decoder: bool = False
    #: Tokens that are never chosen.
    suppressed_token_ids: tuple[int, ...] = ()
    #: transformers' configuration of the model.
    config: Any
    #: Prompt tokens read in one pass: bounds the memory of prompt reading and keeps its shapes few.
    prefill_chunk: int = 512

    def __init__(
        self,
        *,
        cache: RaggedCache,
        vocab_size: int,
        max_length: int,
        eos_token_ids: frozenset[int],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.cache = cache
        self.vocab_size = vocab_size
        self.max_length = max_length
        self.eos_token_ids = eos_token_ids
        self.dtype = dtype
        self.device = device
        self.runner: Runner = EagerRunner(device)

    # -- what a subclass provides ---------------------------------------------------------------------

    @abstractmethod
    def start_tokens(self, prompt_ids: Seq[int]) -> list[int]:
        """The decoder's tokens before anything is written."""

    @abstractmethod
    def forward(self, batch: Pass, *, need_hidden: bool = False) -> PassOutput:
        """One call of the model. New keys and values are written behind each row's own length."""

    def join(self, first_slot: int, prompts: Seq[Seq[int]]) -> list[int]:
        """Let rows in at `first_slot, ...`; returns how many tokens of each the cache now holds."""
        self.reserve(first_slot + len(prompts), max(len(p) for p in prompts))
        starts = [list(self.start_tokens(p)) for p in prompts]
        self._prefill(first_slot, starts)
        return [len(tokens) - 1 for tokens in starts]

    # -- what is the same for all ---------------------------------------------------------------------

    @property
    def caches(self) -> list[RaggedCache]:
        """Every cache that a pass reads or writes."""
        return [self.cache]

    def use_static_shapes(self, capture: Capture) -> None:
        """From now on run passes in few shapes at fixed addresses, each prepared once by `capture`."""
        self.runner = StaticRunner(capture, self.caches, self.dtype, self.device)

    def bound(self, num_rows: int, length: int | None = None) -> None:
        """Make room for so many rows of `length` entries at once, so that what is captured stays valid.

        Without a length, and with no cache of so many rows yet: as much as a share of the device's free memory
        allows. Only static shapes gain by it.
        """
        if not isinstance(self.runner, StaticRunner):
            return
        slots = power_of_two(num_rows)
        for cache in self.caches:
            room = length
            if room is None and self.device.type == "cuda" and cache.num_slots < slots:
                share = int(_CACHE_SHARE * torch.cuda.mem_get_info(self.device)[0]) // len(self.caches)
                fits = max(share // (slots * cache.bytes_per_entry), 1)
                room = min(power_of_two(fits + 1) // 2, power_of_two(self.max_length), 1 << 13)
            if room is not None:
                cache.reserve(slots, self.key_bucket(room))

    def reserve(self, num_slots: int, length: int) -> None:
        """Make room for `length` entries in `num_slots` rows; grows by doubling."""
        if num_slots > self.cache.num_slots or length > self.cache.capacity:
            slots = _doubled(self.cache.num_slots, num_slots)
            capacity = _doubled(max(self.cache.capacity, 32), length)
            self.cache.reserve(slots, capacity)

    def pack(self, rows: Seq[PackedRow], first_slot: int = 0) -> Pass:
        """Tensors of one pass over `rows`, shapes rounded up to this target's buckets."""
        num_queries = self.query_bucket(max(row.num_queries for row in rows))
        key_length = self.key_bucket(max(row.length for row in rows) + num_queries)
        self.reserve(first_slot + len(rows), key_length)
        return pack(
            rows,
            num_queries=num_queries,
            key_length=key_length,
            dtype=self.dtype,
            device=self.runner.pack_device,
            first_slot=first_slot,
        )

    def query_bucket(self, num_queries: int) -> int:
        """Query counts are rounded up to few values: oneDNN and CUDA graphs prepare each shape they meet."""
        return self.runner.query_bucket(num_queries)

    def key_bucket(self, length: int) -> int:
        """Key lengths likewise."""
        return self.runner.key_bucket(length)

    def commit(self, slot: int, length: int, path: Seq[int]) -> None:
        """Keep a row's accepted nodes: `length` entries are committed, the pending token's among them.

        A path that is the first nodes in order (a chain) moves nothing.
        """
        if list(path) != list(range(len(path))):
            self.cache.gather(slot, [length + node for node in path], length)

    def leave(self, slot: int, last_slot: int, last_length: int) -> None:
        """Free a slot by moving the last row into it."""
        if slot != last_slot:
            self.cache.move(last_slot, slot, last_length)

    def _prefill(self, first_slot: int, token_lists: Seq[Seq[int]]) -> None:
        """Read all but the last token of each row, in chunks of equal width."""
        longest = max(len(tokens) for tokens in token_lists) - 1
        for start in range(0, longest, self.prefill_chunk):
            rows = []
            for tokens in token_lists:
                end = min(start + self.prefill_chunk, len(tokens) - 1)
                # A row that is read already repeats a token behind its end, where it does no harm.
                begin = min(start, end)
                rows.append(PackedRow(begin, list(tokens[begin:end]) or [tokens[-1]]))
            self.read(self.pack(rows, first_slot))

    def read(self, batch: Pass) -> None:
        """A pass whose logits nobody wants."""
        self.forward(batch)


def _doubled(have: int, need: int) -> int:
    size = max(have, 1)
    while size < need:
        size *= 2
    return size
