"""The protocol of drafters: guess the next tokens of each row, learn from the verdict.

A drafter knows tokens. Whatever it guesses, the output stays the same; only the speed differs.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

from core.targets.base import PassOutput
from core.types import EMPTY_TREE, DraftTree, Sequence, Verdict


class Drafter:
    """Guesses nothing; a base for those that do. All calls come from the loop's thread."""

    #: Whether `observe` wants the last hidden states.
    needs_hidden: bool = False
    #: Whether `observe` reads the logits. Beside other drafters (`merged`) it is then shown every verified node;
    #: those that are not its own have the origin None.
    needs_logits: bool = False

    def read_vocabulary(self, tokenizer: Any) -> None:
        """Called once, before any row: what the tokens are made of, for drafters that gain by it."""

    def read_verification(self, rule: str) -> None:
        """Called once, before any row: the verification rule's name, for drafters that hand over distributions."""

    def begin(self, row: Sequence) -> None:
        """A row joins: build its state."""

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        """A tree of at most `max_nodes[i]` nodes for each row, likeliest nodes first."""
        return [EMPTY_TREE] * len(rows)

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        """What became of the trees. `rows` hold the accepted tokens already; `output` has the logits."""

    def end(self, row: Sequence) -> None:
        """A row leaves, finished or cancelled: drop its state."""
