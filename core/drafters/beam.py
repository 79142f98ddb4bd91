"""One row's draft tree while a draft model grows it, level by level.

Knows tokens and scores. Does not know models or passes.
"""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Sequence as Seq

import torch

from core.drafters.growth import MIN_SCORE
from core.drafters.ranking import Spot
from core.types import EMPTY_TREE, DraftTree, Sequence


class Beam:
    """Nodes by number, -1 the pending token. `frontier`: whose children are asked for next; `expanded`: those that
    a draft pass has read, in its order; `tip`: the end of its chain, where a drafter follows a single one."""

    def __init__(self, row: Sequence, limit: int, max_depth: int) -> None:
        self.row = row
        self.limit = limit
        self.max_depth = max_depth
        self.frontier = [-1] if limit > 0 and max_depth > 0 else []
        self.expanded: list[int] = []
        self.tip = -1
        self.tokens: list[int] = []
        self._parents: list[int] = []
        self._depths: list[int] = []
        self._scores: list[float] = []
        self._origins: list[Hashable] = []
        self._probs: list[torch.Tensor] = []
        self._new: list[int] = []

    def spot(self, node: int) -> Spot:
        """What samples the token behind a node."""
        return Spot(self.row.params, self.row.position + self.depth(node))

    def parent(self, node: int) -> int:
        return self._parents[node]

    def depth(self, node: int) -> int:
        return self._depths[node] if node >= 0 else 0

    def score(self, node: int) -> float:
        return self._scores[node] if node >= 0 else 1.0

    @property
    def reach(self) -> float:
        """The chance that the frontier is reached: tokens that another level may yield."""
        return min(sum(map(self.score, self.frontier)), 1.0)

    def add(
        self, parent: int, token: int, estimate: float, origin: Hashable, probs: torch.Tensor | None = None
    ) -> int | None:
        """A child that is accepted with probability `estimate` if its parent is; None if it is not worth a slot.

        Siblings must come in the order in which they are tried.
        """
        score = self.score(parent) * estimate
        if score < MIN_SCORE:
            return None
        node = len(self.tokens)
        self.tokens.append(token)
        self._parents.append(parent)
        self._depths.append(self.depth(parent) + 1)
        self._scores.append(score)
        self._origins.append(origin)
        if probs is not None:
            self._probs.append(probs)
        self._new.append(node)
        return node

    def advance(self, width: int, ends: frozenset[int]) -> None:
        """The likeliest `width` of the new nodes become the frontier; nothing is asked for behind `ends`."""
        open_nodes = [
            node
            for node in self._new
            if self._depths[node] < min(self.max_depth, self.limit) and self.tokens[node] not in ends
        ]
        self.frontier = sorted(open_nodes, key=lambda node: -self._scores[node])[:width]
        self._new = []

    def expanded_tree(self) -> DraftTree:
        """The nodes that were read, as a tree of their own."""
        places = {-1: -1} | {node: i for i, node in enumerate(self.expanded)}
        tokens = [self.tokens[node] for node in self.expanded]
        return DraftTree(tokens, [places[self._parents[node]] for node in self.expanded])

    def build(self) -> DraftTree:
        """The likeliest nodes, as many as are allowed, likeliest first."""
        if not self.tokens:
            return EMPTY_TREE
        # A child scores no more than its parent and was added later: a stable sort keeps parents in front.
        order = sorted(range(len(self.tokens)), key=lambda node: -self._scores[node])[: self.limit]
        places = {-1: -1} | {node: i for i, node in enumerate(order)}
        return DraftTree(
            [self.tokens[node] for node in order],
            [places[self._parents[node]] for node in order],
            [self._scores[node] for node in order],
            [self._probs[node] for node in order] if self._probs else None,
            [self._origins[node] for node in order],
        )


def descend(tree: DraftTree, tokens: Seq[int]) -> list[int]:
    """The nodes of a tree, from the root down, that carry the given tokens."""
    path: list[int] = []
    for token in tokens:
        node = path[-1] if path else -1
        children = (i for i, parent in enumerate(tree.parents) if parent == node and tree.tokens[i] == token)
        child = next(children, None)
        if child is None:
            break
        path.append(child)
    return path
