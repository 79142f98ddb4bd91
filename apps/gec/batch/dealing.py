"""Who corrects the texts of a window: one corrector, a batch after the other, or several processes side by side.

Knows that texts of similar length belong together. Does not know rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from apps.gec.refusals import Refusal, correct_or_refuse

if TYPE_CHECKING:
    from apps.gec import CorrectorPool


class Corrected(Protocol):
    """What the job needs to know of a correction."""

    @property
    def text(self) -> str: ...


class BatchCorrector(Protocol):
    """Anything that corrects texts: one result per text, in order."""

    def correct_batch(self, texts: list[str], /) -> Sequence[Corrected]: ...


# Indices of texts, and what became of each.
Outcomes = tuple[Sequence[int], Sequence[Corrected | Refusal]]
# Texts in; outcomes as they are done, each text once, in any order.
Deal = Callable[[Sequence[str]], Iterator[Outcomes]]


def in_turn(corrector: BatchCorrector, batch_size: int) -> Deal:
    """One corrector in this process, `batch_size` texts a call."""

    def deal(texts: Sequence[str]) -> Iterator[Outcomes]:
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            yield batch, correct_or_refuse([texts[index] for index in batch], corrector.correct_batch)

    return deal


def side_by_side(pool: "CorrectorPool") -> Deal:
    """Several processes; the pool sorts and deals."""
    return pool.correct_units
