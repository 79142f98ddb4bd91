"""Our own entry is measured without advantage: it has not seen the texts of the round before."""

from __future__ import annotations

from types import SimpleNamespace

from apps.bench.ours import forget_edits
from core.drafters.base import Drafter
from core.drafters.copy import Copy


def test_edits_learned_in_one_round_are_forgotten_before_the_next() -> None:
    drafter = Copy(is_aligned=True)
    drafter.memory.learn([1, 2, 3, 4], [1, 5, 3, 4])
    assert len(drafter.memory) == 1
    forget_edits(SimpleNamespace(drafter=drafter))  # type: ignore[arg-type]
    assert len(drafter.memory) == 0


def test_a_drafter_without_memory_is_left_alone() -> None:
    engine = SimpleNamespace(drafter=Drafter())
    forget_edits(engine)  # type: ignore[arg-type]
    assert type(engine.drafter) is Drafter
