"""Which row sits in which slot of the target: running ones in front, parked ones behind.

Knows rows and slots. Does not know drafts, nor what a step is. What a row that joins shares with a running or
parked one is taken over instead of read: parked rows in their own slot if it is the next free one, else by a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import NamedTuple

import torch

from core.prefixes import MIN_SHARED, WORTH_WAITING, Held, ParkedRows
from core.targets.base import Target
from core.types import Sequence


class Plan(NamedTuple):
    """A row that joins, the slot whose first `shared` tokens it goes on from, and whether that slot's row is
    given up for it."""

    row: Sequence
    donor: Held
    shared: int
    takes: bool


class Slots:
    """The rows of one engine. `max_parked` 0: nothing is ever taken over."""

    def __init__(self, target: Target, max_parked: int) -> None:
        self.running: list[Sequence] = []
        self.parked = ParkedRows(max_parked)
        self._target = target

    def join(self, rows: Seq[Sequence], begin: Callable[[Sequence], None]) -> None:
        """Let rows in; `begin` is told of each when its prompt is read, just before it runs.

        Raises RuntimeError while rows of another engine run on the same target.
        """
        self._take_target()
        left = list(rows)
        while left:
            fresh, plans = self._sort_out(left)
            if fresh:
                self._clear(len(self.running) + len(fresh))
                lengths = self._target.join(len(self.running), [row.prompt_ids for row in fresh])
                self._let_in(fresh, lengths, [0] * len(fresh), begin)
            if plans:
                self._resume(plans, begin)
            left = [row for row in left if row not in self.running]

    def leave(self, row: Sequence) -> None:
        """Free a row's slot, moving the last row into the gap; what it held is parked."""
        slot, last = self.running.index(row), len(self.running) - 1
        self._park(slot)
        self._target.leave(slot, last, self.running[last].cache_len)
        self.running[slot] = self.running[last]
        self.running.pop()
        self._check()

    # -- joining --------------------------------------------------------------------------------------

    def _take_target(self) -> None:
        owner = self._target.owner
        if owner is self:
            return
        if owner is not None and owner.running:
            raise RuntimeError(
                f"another engine has {len(owner.running)} rows running on this target, which these would overwrite; "
                "let it finish or cancel them, or load the model once more"
            )
        # The other engine knew nothing of what was parked here.
        self.parked.clear()
        self._target.owner = self

    def _sort_out(self, rows: Seq[Sequence]) -> tuple[list[Sequence], list[Plan]]:
        """Rows to read as a whole, and rows that go on from others. Who is left out waits for one of them."""
        if self.parked.max_rows == 0:
            return list(rows), []
        donors = [*self.parked, *(self._held(slot) for slot in range(len(self.running)))]
        fresh: list[Sequence] = []
        plans: list[Plan] = []
        chosen: list[Sequence] = []
        given: set[Held] = set()
        for row in rows:
            donor, shared = self._best(row, donors)
            awaited = max(
                (self._target.shared(row.prompt_ids, other.prompt_ids) for other in chosen), default=0
            )
            if awaited >= shared + WORTH_WAITING:
                continue
            chosen.append(row)
            if donor is None:
                fresh.append(row)
                continue
            takes = donor in self.parked and donor not in given and donor.can_give_up_all_but(shared)
            if takes:
                given.add(donor)
            plans.append(Plan(row, donor, shared, takes))
        return fresh, plans

    def _best(self, row: Sequence, donors: Seq[Held]) -> tuple[Held | None, int]:
        """Who shares most with the row; among equals the shortest, which has least to lose."""
        best, most = None, 0
        for donor in donors:
            shared = self._target.shared(row.prompt_ids, donor.tokens)
            if shared > most or (best and shared == most and len(donor.tokens) < len(best.tokens)):
                best, most = donor, shared
        return (best, most) if most >= MIN_SHARED else (None, 0)

    def _resume(self, plans: list[Plan], begin: Callable[[Sequence], None]) -> None:
        """Let rows in that go on from others: everything is copied before anything is read."""
        # Rows with nothing left to read stand last, so that no pass covers them.
        plans = sorted(plans, key=lambda plan: plan.shared - len(plan.row.prompt_ids))
        first = len(self.running)
        in_place = {
            plan.donor for slot, plan in enumerate(plans, first) if plan.takes and plan.donor.slot == slot
        }
        self._clear(first + len(plans), in_place)
        self._target.reserve_slots(first + len(plans))
        for slot, plan in enumerate(plans, first):
            if plan.donor.slot != slot:
                self._target.copy_shared(plan.donor.slot, slot, plan.shared)
        for plan in plans:
            if plan.takes:
                self.parked.remove(plan.donor)
            elif plan.donor in self.parked:
                self.parked.touch(plan.donor)
        rows, shared = [plan.row for plan in plans], [plan.shared for plan in plans]
        lengths = self._target.resume(first, [row.prompt_ids for row in rows], shared)
        self._let_in(rows, lengths, shared, begin)

    def _let_in(
        self, rows: Seq[Sequence], lengths: Seq[int], reused: Seq[int], begin: Callable[[Sequence], None]
    ) -> None:
        for row, length, num_reused in zip(rows, lengths, reused, strict=True):
            row.cache_len = length
            assert row.cache_len == len(row.tokens) - 1, "a joining row must have one pending token"
            row.stats.prompt_tokens = len(row.prompt_ids)
            row.stats.reused_tokens = num_reused
            begin(row)
            self.running.append(row)
        self._check()

    # -- parking --------------------------------------------------------------------------------------

    def _park(self, slot: int) -> None:
        """Keep what a slot holds: where it is, if no pass of the rows that go on reaches there, else by a copy."""
        row, last = self._held(slot), len(self.running) - 1
        if self.parked.max_rows == 0 or len(row.tokens) < MIN_SHARED:
            return
        self.parked.make_room(row.tokens, self._target.shared)
        reached = self._target.row_bucket(last)
        if not slot == last >= reached:
            place = self.parked.free_slot(max(last + 1, reached))
            try:
                self._target.reserve_slots(place + 1)
            except torch.OutOfMemoryError:
                return  # The row is finished; nothing hangs on its being parked.
            self._target.copy_shared(slot, place, len(row.tokens))
            row.slot = place
        self.parked.add(row)

    def _clear(self, num_rows: int, in_place: set[Held] | None = None) -> None:
        """Move parked rows out of the slots that passes over `num_rows` rows reach, padding included."""
        reached = self._target.row_bucket(num_rows)
        for row in self.parked:
            if row.slot < reached and row not in (in_place or ()):
                place = self.parked.free_slot(reached)
                self._target.reserve_slots(place + 1)
                self._target.copy_shared(row.slot, place, len(row.tokens))
                row.slot = place

    def _held(self, slot: int) -> Held:
        """What can be taken over from a running row: its committed tokens, or the source that was encoded."""
        row = self.running[slot]
        return Held(slot, row.prompt_ids if self._target.is_encoder_decoder else row.tokens[: row.cache_len])

    def _check(self) -> None:
        reached = self._target.row_bucket(len(self.running))
        slots = [row.slot for row in self.parked]
        assert all(slot >= reached for slot in slots), "a pass would write into a parked row"
        assert len(set(slots)) == len(slots), "two parked rows share a slot"
