"""Draft trees grown best first: always the node that is likeliest to be reached.

Knows guesses with acceptance estimates. Does not know where they come from.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Any

from core.types import DraftTree

#: Nodes below this chance of being reached are not worth a slot, however large the budget.
MIN_SCORE = 0.02

Guess = tuple[int, float, Any, Any]
"""Token, probability that it is accepted if what stands before it was, origin, state behind it"""

Children = Callable[[Any], Seq[Guess]]
"""State -> guesses of the next token, all different"""


def best_first(root: Any, children: Children, limit: int, max_depth: int = 1 << 30) -> DraftTree:
    """The `limit` nodes that are likeliest to be accepted, likeliest first."""
    tokens: list[int] = []
    parents: list[int] = []
    scores: list[float] = []
    origins: list[Any] = []
    serial = 0
    heap: list[tuple[float, int, int, int, int, Any, Any]] = []
    node, depth, score, state = -1, 0, 1.0, root
    while True:
        if depth < max_depth:
            for token, estimate, origin, behind in children(state):
                if score * estimate >= MIN_SCORE:
                    serial += 1
                    heapq.heappush(heap, (-score * estimate, serial, node, depth + 1, token, origin, behind))
        if not heap or len(tokens) >= limit:
            return DraftTree(tokens, parents, scores, None, origins)
        negative, _, parent, depth, token, origin, state = heapq.heappop(heap)
        node, score = len(tokens), -negative
        tokens.append(token)
        parents.append(parent)
        scores.append(score)
        origins.append(origin)


def chain(guesses: Seq[Guess], limit: int) -> DraftTree:
    """The guesses one behind the other, as far as they are worth a slot."""
    scores: list[float] = []
    score = 1.0
    for _, estimate, _, _ in guesses[:limit]:
        score *= estimate
        if score < MIN_SCORE:
            break
        scores.append(score)
    n = len(scores)
    return DraftTree(
        [guess[0] for guess in guesses[:n]],
        list(range(-1, n - 1)),
        scores,
        None,
        [guess[2] for guess in guesses[:n]],
    )
