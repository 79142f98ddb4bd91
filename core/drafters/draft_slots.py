"""Where a draft model keeps the rows of the batch: in a cache of its own.

Knows rows, slots and a target. Does not know trees' growth or sampling.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from core.drafters.beam import descend
from core.packing import PackedRow
from core.prefixes import common_prefix
from core.slots import Slots
from core.targets.base import Target
from core.types import EMPTY_TREE, DraftTree, Sequence

#: A row that lags further behind than this is read without logits first.
_FEW_BEHIND = 16


class Place(NamedTuple):
    """Where a row lies: `length` entries are committed, and the `certain` tokens (at least one) behind them are
    still to be read; the last of them is pending."""

    row: Sequence
    length: int
    certain: list[int]

    @property
    def end(self) -> int:
        """Tokens so far."""
        return self.length + len(self.certain)


class DraftSlots(Protocol):
    """Looks after the rows of one draft model."""

    @property
    def target(self) -> Target: ...

    def begin(self, row: Sequence) -> None: ...

    def places(self, rows: Seq[Sequence]) -> list[Place]:
        """The rows that can be drafted for, in the order of their slots, which are 0, 1, ..."""
        ...

    def wrote(self, place: Place, tree: DraftTree) -> None:
        """A pass has read the place's certain tokens, and behind them the nodes of `tree` in their order."""
        ...

    def settle(self, rows: Seq[Sequence]) -> None:
        """The rows hold the accepted tokens: keep the entries of those that were drafted."""
        ...

    def end(self, row: Sequence) -> None: ...


@dataclass(eq=False)
class Shadow(Sequence):
    """A row as the draft model has it. `cache_len` entries are committed; `drafted` lies behind them."""

    drafted: DraftTree = field(default=EMPTY_TREE)


class OwnSlots:
    """A draft model's own rows: they are read when they are first drafted for, and catch up whenever they lag. What a
    row has written may change at its end (a text that is split anew): as much is read again.

    Rows that do not fit the model (longer than its context, tokens beyond its vocabulary) are not drafted for.
    `max_parked` finished rows stay, for prompts that begin alike (see `Engine`). Memory: the model's cache, for as
    many rows as run.
    """

    def __init__(self, target: Target, max_parked: int | None = None) -> None:
        if max_parked is None:
            max_parked = 0 if target.is_encoder_decoder else 4
        self._target = target
        self._slots = Slots(target, max_parked)
        self._waiting: dict[int, Sequence] = {}
        self._shadows: dict[int, Shadow] = {}

    @property
    def target(self) -> Target:
        return self._target

    def begin(self, row: Sequence) -> None:
        self._waiting[row.id] = row

    def places(self, rows: Seq[Sequence]) -> list[Place]:
        self._join([self._waiting.pop(row.id) for row in rows if row.id in self._waiting])
        self.settle(rows)
        self._catch_up()
        of_shadow = {id(self._shadows[row.id]): row for row in rows if row.id in self._shadows}
        assert len(of_shadow) == len(self._slots.running), "a row of the draft model was not asked for"
        return [
            Place(of_shadow[id(shadow)], shadow.cache_len, shadow.tokens[shadow.cache_len :])
            for shadow in self._running()
        ]

    def wrote(self, place: Place, tree: DraftTree) -> None:
        shadow = self._shadows[place.row.id]
        shadow.cache_len = place.end
        shadow.drafted = tree

    def settle(self, rows: Seq[Sequence]) -> None:
        for row in rows:
            shadow = self._shadows.get(row.id)
            if shadow is None:
                continue
            tokens = [*shadow.tokens[: shadow.num_prompt], *row.output_ids]
            if self._fits(tokens, len(shadow.tokens)):
                self._settle_one(shadow, tokens)
            else:
                self._leave(self._shadows.pop(row.id))

    def end(self, row: Sequence) -> None:
        self._waiting.pop(row.id, None)
        shadow = self._shadows.pop(row.id, None)
        if shadow is not None:
            self._leave(shadow)

    def _settle_one(self, shadow: Shadow, tokens: list[int]) -> None:
        kept = min(shadow.cache_len, common_prefix(shadow.tokens, tokens))
        if kept == shadow.cache_len and len(shadow.drafted):
            path = descend(shadow.drafted, tokens[kept:])
            self._target.commit(self._slots.running.index(shadow), kept, path)
            kept += len(path)
        # The last token is read again if need be: its logits are what the next tree begins with.
        shadow.cache_len = min(kept, len(tokens) - 1)
        shadow.tokens[:] = tokens
        shadow.drafted = EMPTY_TREE

    def _leave(self, shadow: Shadow) -> None:
        # The last row moves into the gap, without what was drafted for it.
        self._running()[-1].drafted = EMPTY_TREE
        self._slots.leave(shadow)

    def _join(self, rows: Seq[Sequence]) -> None:
        joining = []
        for row in rows:
            tokens = self._target.start_tokens(row.prompt_ids)
            if not self._fits(tokens) or not self._fits(row.prompt_ids):
                continue
            self._shadows[row.id] = Shadow(row.id, row.request, row.params, row.prompt_ids, tokens, [])
            joining.append(self._shadows[row.id])
        if joining:
            self._slots.join(joining, _ignore)

    def _fits(self, tokens: Seq[int], known: int = 0) -> bool:
        """Whether the model has a position for one token more, and knows those behind the first `known`."""
        target = self._target
        return 0 < len(tokens) < target.max_length and max(tokens[known:], default=0) < target.vocab_size

    def _catch_up(self) -> None:
        """Read what rows lag behind by, but for the last few tokens."""
        target = self._target
        while any(len(s.tokens) - s.cache_len > _FEW_BEHIND for s in self._running()):
            packed = []
            for shadow in self._running():
                stop = min(shadow.cache_len + target.prefill_chunk, len(shadow.tokens) - 1)
                # A row that has caught up repeats a token behind its end, where it does no harm.
                certain = shadow.tokens[shadow.cache_len : stop] or shadow.tokens[-1:]
                packed.append(PackedRow(shadow.cache_len, certain))
                shadow.cache_len = max(stop, shadow.cache_len)
            target.read(target.pack(packed))

    def _running(self) -> list[Shadow]:
        running: list[Shadow] = self._slots.running  # type: ignore[assignment]
        return running


def _ignore(row: Sequence) -> None:
    """Nothing hangs on a shadow's joining."""
