"""A drafter that knows what plain decoding writes, and drafts it half right in random trees."""

from __future__ import annotations

import random
from collections.abc import Sequence as Seq

from core.drafters.base import Drafter
from core.targets.base import PassOutput
from core.types import DraftTree, Sequence, Verdict
from tests.core.models import FIRST_WORD, VOCAB


def random_tree(truth: Seq[int], size: int, rng: random.Random, error: float = 0.15) -> DraftTree:
    """Up to `size` nodes: stretches of the truth with corrupted nodes, and wrong branches before and after."""
    tokens: list[int] = []
    parents: list[int] = []
    depth_of = {-1: 0}
    tip, wanted = -1, 0
    while len(tokens) < size:
        on_path = rng.random() < 0.6 and wanted < len(truth)
        parent = tip if on_path else rng.choice(list(depth_of))
        depth = depth_of[parent]
        token = rng.randrange(FIRST_WORD, VOCAB)
        if on_path and rng.random() >= error:
            token = truth[wanted]
        node = len(tokens)
        tokens.append(token)
        parents.append(parent)
        depth_of[node] = depth + 1
        if on_path and token == truth[wanted]:
            tip, wanted = node, wanted + 1
    return DraftTree(tokens, parents)


class Scripted(Drafter):
    """Random trees around `plain`: prompt -> all tokens that plain decoding wrote for it."""

    def __init__(self, plain: dict[tuple[int, ...], list[int]], size: int = 12, seed: int = 0) -> None:
        self._plain = plain
        self._size = size
        self._rng = random.Random(seed)
        self.alive: set[int] = set()
        self.num_accepted = 0
        self.num_branches = 0
        self.deepest = 0

    def begin(self, row: Sequence) -> None:
        self.alive.add(row.id)

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        trees = []
        for row in rows:
            # Behind the end of the truth the tree goes on with nonsense: an end token stands in its middle.
            behind = [self._rng.randrange(FIRST_WORD, VOCAB) for _ in range(6)]
            truth = self._plain[tuple(row.prompt_ids)][len(row.output_ids) :] + behind
            trees.append(random_tree(truth, self._rng.randint(0, self._size), self._rng))
        return trees

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        for verdict in verdicts:
            self.num_accepted += len(verdict.path)
            self.deepest = max(self.deepest, len(verdict.path))
            self.num_branches += list(verdict.path) != list(range(len(verdict.path)))

    def end(self, row: Sequence) -> None:
        self.alive.remove(row.id)
