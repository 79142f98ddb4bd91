"""Token Recycling: what the target thought might follow a token the last time (Luo et al. 2408.08696).

An adjacency matrix holds each token's likeliest successors, taken from the logits at every verified node, rejected
ones too. The tree is a template of successor ranks, filled in from the matrix. The published template is fixed; this
one is grown from how often each rank was accepted.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np

from core.drafters.base import Drafter
from core.drafters.calibration import Calibration
from core.drafters.growth import Guess, best_first
from core.drafters.top_tokens import top_tokens
from core.drafters.trials import tried
from core.targets.base import PassOutput
from core.types import EMPTY_TREE, DraftTree, Sequence, Verdict

#: Passes after which the template is grown anew.
_TEMPLATE_LIFE = 32


class TokenRecycling(Drafter):
    """Trees of at most `max_nodes` nodes and `max_depth` levels, from `num_successors` successors of each token.

    Memory: 4 * vocabulary * `num_successors` bytes for the engine's life, shared by all rows (4 MB for 128,000
    tokens).
    """

    needs_logits = True

    def __init__(
        self, vocab_size: int, num_successors: int = 8, max_nodes: int = 80, max_depth: int = 6
    ) -> None:
        if min(num_successors, max_nodes, max_depth) < 1:
            raise ValueError(f"{num_successors=}, {max_nodes=} and {max_depth=} must be at least 1")
        self._successors = np.full((vocab_size, min(num_successors, vocab_size)), -1, np.int32)
        self._max_nodes = max_nodes
        self._max_depth = max_depth
        self._calibration = Calibration(_prior)
        self._template = EMPTY_TREE
        self._template_age = _TEMPLATE_LIFE
        # The pending token of each row when its tree was made.
        self._pending: dict[int, int] = {}

    @property
    def num_bytes(self) -> int:
        return self._successors.nbytes

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        if self._template_age >= _TEMPLATE_LIFE:
            self._template = best_first(None, self._ranks, self._max_nodes, self._max_depth)
            self._template_age = 0
        self._template_age += 1
        trees = []
        for row, limit in zip(rows, max_nodes, strict=True):
            self._pending[row.id] = row.tokens[-1]
            trees.append(self._filled(row.tokens[-1], limit))
        return trees

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        self._calibration.record_all(tried(trees, verdicts))
        tokens, _ = top_tokens(trees, output, self._successors.shape[1])
        contexts: list[int] = []
        for row, tree in zip(rows, trees, strict=True):
            contexts += [self._pending[row.id], *tree.tokens]
        self._successors[contexts] = tokens

    def end(self, row: Sequence) -> None:
        self._pending.pop(row.id, None)

    def _ranks(self, state: None) -> list[Guess]:
        """A node of the template: successors by rank alone."""
        estimate = self._calibration.estimate
        return [(rank, estimate(rank), rank, None) for rank in range(self._successors.shape[1])]

    def _filled(self, pending: int, limit: int) -> DraftTree:
        """The template's first `limit` nodes with tokens, without those below a token that was never seen."""
        template = self._template.prefix(limit)
        successors: dict[int, list[int]] = {-1: self._successors[pending].tolist()}
        places = {-1: -1}
        kept: list[int] = []
        tokens: list[int] = []
        for node, (rank, parent) in enumerate(zip(template.tokens, template.parents, strict=True)):
            if parent not in places:
                continue
            if parent not in successors:
                successors[parent] = self._successors[tokens[places[parent]]].tolist()
            token = successors[parent][rank]
            if token >= 0:
                places[node] = len(tokens)
                kept.append(node)
                tokens.append(token)
        assert template.scores is not None
        assert template.origins is not None
        return DraftTree(
            tokens,
            [places[template.parents[node]] for node in kept],
            [template.scores[node] for node in kept],
            None,
            [template.origins[node] for node in kept],
        )


def _prior(rank: int) -> float:
    return 0.45 * 0.4**rank
