"""How few passes of the target a correction could have taken, and how many it took.

A pass yields one token that need not be in the draft (the sampled one at the first miss), so a drafter that
copies from the source perfectly needs one pass plus one for each output token that the source does not hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


def novel_tokens(source_ids: Sequence[int], output_ids: Sequence[int]) -> int:
    """Return how many output tokens are not in the source, counting repeats (multiset difference)."""
    return (Counter(output_ids) - Counter(source_ids)).total()


@dataclass
class PassCounts:
    """Sums over sentences; the rates are properties."""

    sentences: int = 0
    passes: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    reachable: int = 0
    seconds: Counter[str] = field(default_factory=Counter)

    @property
    def per_sentence(self) -> float:
        """Mean passes of the target."""
        return self.passes / max(self.sentences, 1)

    @property
    def tokens_per_pass(self) -> float:
        """Mean tokens that a pass yields."""
        return self.tokens / max(self.passes, 1)

    @property
    def bound(self) -> float:
        """Mean of 1 + novel tokens: the passes per sentence of perfect copying."""
        return self.reachable / max(self.sentences, 1)

    @property
    def ratio_to_bound(self) -> float:
        """Passes over the passes of perfect copying."""
        return self.passes / max(self.reachable, 1)

    def add(
        self, passes: int, drafted: int, accepted: int, source_ids: Sequence[int], output_ids: Sequence[int]
    ) -> None:
        """Count one sentence; ids are without special tokens."""
        self.sentences += 1
        self.passes += passes
        self.tokens += len(output_ids) + 1  # the end of the sentence is generated too
        self.drafted += drafted
        self.accepted += accepted
        self.reachable += 1 + novel_tokens(source_ids, output_ids)
