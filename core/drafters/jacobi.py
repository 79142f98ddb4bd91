"""Parallel decoding by Jacobi iteration (Santilli et al. 2305.10427).

A chain of guesses is improved by the target itself: what it would have chosen behind each guess in the last pass is
the guess for the next place in this one. Guesses that are right by now are accepted.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

from core.drafters.base import Drafter
from core.drafters.calibration import Calibration
from core.drafters.growth import chain
from core.drafters.top_tokens import best_tokens
from core.drafters.trials import tried
from core.targets.base import PassOutput
from core.types import DraftTree, Sequence, Verdict


class Jacobi(Drafter):
    """Chains of `width` guesses. Memory: `width` numbers for each running row."""

    needs_logits = True

    def __init__(self, width: int = 8) -> None:
        if width < 1:
            raise ValueError(f"{width=} must be at least 1")
        self.width = width
        self._calibration = Calibration(lambda depth: 0.3 if depth else 0.4)
        self._guesses: dict[int, list[int]] = {}

    def begin(self, row: Sequence) -> None:
        self._guesses[row.id] = []

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        trees = []
        for row, limit in zip(rows, max_nodes, strict=True):
            guesses = self._guesses[row.id]
            # Places without a guess start from any token; the last one is as good as another.
            guesses += [row.tokens[-1]] * (self.width - len(guesses))
            chained = [(token, self._calibration.estimate(i), i, None) for i, token in enumerate(guesses)]
            trees.append(chain(chained, limit))
        return trees

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        self._calibration.record_all(tried(trees, verdicts))
        best = best_tokens(trees, output)
        for row, tree, verdict in zip(rows, trees, verdicts, strict=True):
            here, best = best[: 1 + len(tree)], best[1 + len(tree) :]
            self._guesses[row.id] = improved(self._guesses[row.id], own_nodes(tree), here, len(verdict.path))

    def end(self, row: Sequence) -> None:
        self._guesses.pop(row.id)


def own_nodes(tree: DraftTree) -> list[int]:
    """The nodes of a tree that the drafter made itself, parents first."""
    return [node for node, origin in enumerate(tree.origins or ()) if origin is not None]


def improved(guesses: list[int], nodes: Seq[int], best: Seq[int], num_accepted: int) -> list[int]:
    """Guesses for the places behind the next pending token.

    `nodes` verified the first of `guesses`; `best` holds the target's choice at the pending token and every node.
    `num_accepted` nodes and one more token were written since.
    """
    chosen = [best[1 + node] for node in nodes[num_accepted:]]
    return chosen + guesses[max(len(nodes), num_accepted) + 1 :]
