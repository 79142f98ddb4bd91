"""One tree from several paths: those that begin alike share their nodes.

Knows tokens and scores. Does not know drafters.
"""

from __future__ import annotations

from typing import Any

from core.types import DraftTree


class TreeBuilder:
    """Nodes are added below nodes that are there already; -1 is the pending token."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._scores: list[float] = []
        self._origins: list[Any] = []
        self._places: dict[tuple[int, int], int] = {}

    def add(self, parent: int, token: int, score: float, origin: Any, *, is_main: bool = False) -> int:
        """The node of `token` below `parent`; a new one, or the one that is there, whose score rises to `score`
        (never above its parent's). `is_main`: the origin replaces that of a node that is there."""
        if parent >= 0:
            score = min(score, self._scores[parent])
        node = self._places.get((parent, token))
        if node is None:
            node = self._places[parent, token] = len(self._tokens)
            self._tokens.append(token)
            self._parents.append(parent)
            self._scores.append(score)
            self._origins.append(origin)
            return node
        self._scores[node] = max(self._scores[node], score)
        if is_main:
            self._origins[node] = origin
        return node

    def build(self, limit: int) -> DraftTree:
        """The `limit` nodes with the highest scores, highest first."""
        # Parents were added first and score no less, so a stable sort keeps them before their children.
        order = sorted(range(len(self._tokens)), key=lambda node: -self._scores[node])[:limit]
        places = {-1: -1} | {node: i for i, node in enumerate(order)}
        return DraftTree(
            [self._tokens[node] for node in order],
            [places[self._parents[node]] for node in order],
            [self._scores[node] for node in order],
            None,
            [self._origins[node] for node in order],
        )
