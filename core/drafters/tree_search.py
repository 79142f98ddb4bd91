"""Draft trees found by Monte-Carlo tree search with PUCT.

Knows guesses with acceptance estimates. Does not know where they come from.

A simulation descends by argmax of Q + c * P * sqrt(n) / (1 + n_child) to a node that none has visited, follows the
likeliest successors from there (the rollout; all of it joins the tree), and is worth the number of tokens expected to
be accepted along its path. The nodes that were visited most often are the draft.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Any

from core.drafters.growth import MIN_SCORE, Children
from core.types import DraftTree


@dataclass(frozen=True)
class SearchOptions:
    """`simulations` are run from each root, to a depth of `max_depth`. PUCT's c is
    `exploration` * (1 + ln((n + base + 1) / base)); 0 switches exploration off. `is_search=False` skips the search:
    the likeliest nodes are taken, best first."""

    simulations: int = 8
    max_depth: int = 12
    exploration: float = 1.0
    exploration_base: float = 8.0
    is_search: bool = True

    def __post_init__(self) -> None:
        for name in ("simulations", "max_depth"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if not 0 <= self.exploration < inf:
            raise ValueError(f"exploration={self.exploration} must be 0 (off) or greater")
        if not 0 < self.exploration_base < inf:
            raise ValueError(f"exploration_base={self.exploration_base} must be greater than 0")


class _Node:
    """A guess in the search tree. `value` sums the worth of the simulations through it; `children` is None until
    it is expanded."""

    __slots__ = ("children", "estimate", "origin", "reach", "state", "token", "value", "visits")

    def __init__(self, token: int, estimate: float, origin: Any, state: Any, reach: float) -> None:
        self.token = token
        self.estimate = estimate
        self.origin = origin
        self.state = state
        self.reach = reach
        self.visits = 0
        # Before any visit: worth its own token.
        self.value = estimate
        self.children: list[_Node] | None = None


def search(root: Any, children: Children, limit: int, options: SearchOptions) -> DraftTree:
    """The `limit` nodes that the search visited most often; of equal ones the likeliest."""
    top = _Node(-1, 1.0, None, root, 1.0)
    visited: list[tuple[_Node, _Node]] = []
    for _ in range(min(options.simulations, limit)):
        if not _simulate(top, children, visited, options):
            break  # all others would take the same path
    visited.sort(key=lambda pair: (-pair[1].visits, -pair[1].reach))
    del visited[limit:]
    places = {id(top): -1} | {id(node): i for i, (_, node) in enumerate(visited)}
    return DraftTree(
        [node.token for _, node in visited],
        [places[id(parent)] for parent, _ in visited],
        [node.reach for _, node in visited],
        None,
        [node.origin for _, node in visited],
    )


def _simulate(
    top: _Node, children: Children, visited: list[tuple[_Node, _Node]], options: SearchOptions
) -> bool:
    """One path from the root to the end of its rollout; whether there was another to choose. Nodes met for the first
    time are added to `visited`, parents before children."""
    path: list[_Node] = []
    node, branches = top, False
    while len(path) < options.max_depth:
        if node.children is None:
            node.children = _expand(node, children)
        if not node.children:
            break
        branches = branches or len(node.children) > 1
        # A node's children come likeliest first: the rollout takes the first.
        parent, node = node, _select(node, options) if node.visits else node.children[0]
        if not node.visits:
            visited.append((parent, node))
        path.append(node)
    worth = 0.0
    for node in reversed(path):
        worth = node.estimate * (1.0 + worth)
        node.value = worth if not node.visits else node.value + worth
        node.visits += 1
    top.visits += 1
    return branches


def _expand(node: _Node, children: Children) -> list[_Node]:
    reach = node.reach
    return [
        _Node(token, estimate, origin, state, reach * estimate)
        for token, estimate, origin, state in children(node.state)
        if reach * estimate >= MIN_SCORE
    ]


def _select(node: _Node, options: SearchOptions) -> _Node:
    """The child that PUCT prefers."""
    assert node.children
    if len(node.children) == 1:
        return node.children[0]
    n, base = node.visits, options.exploration_base
    weight = options.exploration * (1.0 + log((n + base + 1) / base)) * sqrt(n)
    best, best_score = node.children[0], -1.0
    for child in node.children:
        seen = child.visits
        score = child.value / (seen or 1) + weight * child.estimate / (1 + seen)
        if score > best_score:
            best, best_score = child, score
    return best
