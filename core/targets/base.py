"""What the loop asks of a target model.

Knows the cache and the tensors of a pass. Does not know drafting, sampling or text.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Any, Protocol

import torch

from core.cache import RaggedCache
from core.packing import PackedRow, Pass, pack
from core.prefixes import common_prefix
from core.targets.runners import Capture, EagerRunner, PassOutput, Runner, StaticRunner, power_of_two
from core.types import Sequence

__all__ = ["PassOutput", "Target", "UnsupportedModelError"]

#: Share of the device's free memory that `bound` may take: a cache that grows needs its old and new self at once.
_CACHE_SHARE = 0.25


class Owner(Protocol):
    """Who keeps rows in a target's slots."""

    running: list[Sequence]


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
    #: How the number of a pass's queries is rounded up, where rows are run without the padding between them.
    flat_bucket: Callable[[int], int] | None = None

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
        #: Ids that a prompt may hold: an encoder may read another vocabulary than the decoder writes.
        self.prompt_vocab_size = vocab_size
        self.max_length = max_length
        self.eos_token_ids = eos_token_ids
        self.dtype = dtype
        self.device = device
        self.runner: Runner = EagerRunner(device)
        self._owner: weakref.ref[Owner] | None = None

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
        return self._prefill(first_slot, prompts, [0] * len(prompts))

    # -- what a row may take over from another --------------------------------------------------------

    def shared(self, prompt: Seq[int], held: Seq[int]) -> int:
        """How many tokens of the prompt a slot that holds `held` spares reading; the last one stays pending."""
        return min(common_prefix(prompt, held), len(prompt) - 1)

    def copy_shared(self, source_slot: int, slot: int, num_tokens: int) -> None:
        """Let a slot hold the first `num_tokens` of what another one holds."""
        self.cache.move(source_slot, slot, num_tokens)

    def resume(self, first_slot: int, prompts: Seq[Seq[int]], shared: Seq[int]) -> list[int]:
        """Like `join`, for rows whose slots hold the first `shared[i]` tokens of their prompts already."""
        self.reserve(first_slot + len(prompts), max(len(p) for p in prompts))
        return self._prefill(first_slot, prompts, shared)

    # -- what is the same for all ---------------------------------------------------------------------

    @property
    def owner(self) -> Owner | None:
        """Whose rows the slots hold: who finds another here has lost what lay behind its running rows."""
        return None if self._owner is None else self._owner()

    @owner.setter
    def owner(self, owner: Owner) -> None:
        # Weakly: an engine that is gone needs its rows no more.
        self._owner = weakref.ref(owner)

    @property
    def caches(self) -> list[RaggedCache]:
        """Every cache that a pass reads or writes."""
        return [self.cache]

    def use_static_shapes(self, capture: Capture) -> None:
        """From now on run passes in few shapes at fixed addresses, each prepared once by `capture`."""
        self.runner = StaticRunner(capture, self.caches, self.dtype, self.device)

    def bound(self, num_rows: int, length: int | None = None, num_parked: int = 0) -> None:
        """Make room for so many rows of `length` entries at once, so that what is captured stays valid.

        Without a length, and with no cache of so many rows yet: as much as a share of the device's free memory
        allows. Only static shapes gain by it.
        """
        if not isinstance(self.runner, StaticRunner):
            return
        slots = self.row_bucket(num_rows) + num_parked
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

    def reserve_slots(self, num_slots: int) -> None:
        """Make room for so many rows of the present capacity, and no more."""
        for cache in self.caches:
            cache.reserve(num_slots, cache.capacity)

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

    def row_bucket(self, num_rows: int) -> int:
        """The slots, from 0 on, that a pass over so many rows may write to: padded rows write too."""
        return self.runner.row_bucket(num_rows)

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

    def _prefill(self, first_slot: int, prompts: Seq[Seq[int]], kept: Seq[int]) -> list[int]:
        """Read all but the last token of each row from its own `kept` on, in chunks of equal width; returns how
        many tokens of each the cache then holds.

        Rows with nothing to read are left out at both ends of the slots.
        """
        rows = [list(self.start_tokens(prompt)) for prompt in prompts]
        ends = [len(tokens) - 1 for tokens in rows]
        starts = list(kept)
        while unread := [i for i, (start, end) in enumerate(zip(starts, ends, strict=True)) if start < end]:
            packed = []
            for i in range(unread[0], unread[-1] + 1):
                stop = min(starts[i] + self.prefill_chunk, ends[i])
                # A row that is read already repeats a token behind its end, where it does no harm.
                packed.append(PackedRow(starts[i], rows[i][starts[i] : stop] or rows[i][-1:]))
                starts[i] = stop
            self.read(self.pack(packed, first_slot + unread[0]))
        return ends

    def read(self, batch: Pass) -> None:
        """A pass whose logits nobody wants."""
        self.forward(batch)


def _doubled(have: int, need: int) -> int:
    size = max(have, 1)
    while size < need:
        size *= 2
    return size
