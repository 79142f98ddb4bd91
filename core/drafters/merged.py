"""Several drafters' trees in one.

Nodes that agree are shared. How probable a node is, is learnt: from the drafter that is surest of it, how sure, how
many agree and how many siblings are likelier, so scores of different drafters need not be comparable. A drafter whose
own finds save less time than they take rests for a while.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from math import log2
from typing import Any, NamedTuple

from core.drafters.base import Drafter
from core.drafters.calibration import Calibration
from core.drafters.growth import MIN_SCORE
from core.drafters.trials import tried
from core.ledger import Ledger
from core.targets.base import PassOutput
from core.types import EMPTY_TREE, DraftTree, Sequence, Verdict

#: Up to here estimates are told apart in tenths, above by how little is missing to 1: a chain of twenty nodes is
#: likely at 0.98 each, and is not at 0.95.
_SURE, _SURE_STEPS = 0.7, 12


class Key(NamedTuple):
    """What an estimate depends on: the surest drafter, the step of its estimate (see `_step`), how many agree, and
    the rank among siblings."""

    part: int
    step: int
    agreement: int
    rank: int


class Origin(NamedTuple):
    """Of a merged node: the key of its estimate, and each claiming drafter's own origin."""

    key: Key
    claims: dict[int, Any]


class _Node:
    """A node that at least one drafter guessed; `estimates` are theirs, given that its parent is accepted."""

    __slots__ = ("children", "claims", "estimates", "token")

    def __init__(self, token: int) -> None:
        self.token = token
        self.estimates: dict[int, float] = {}
        self.claims: dict[int, Any] = {}
        self.children: dict[int, _Node] = {}


class Merged(Drafter):
    """One tree from the trees of `parts`. With `is_gated=False` no part ever rests.

    Memory: that of its parts.
    """

    needs_logits = True

    def __init__(self, parts: Seq[Drafter], *, is_gated: bool = True) -> None:
        if not parts:
            raise ValueError("merged needs at least one drafter; give parts such as 'copy+adaptive_trigram'")
        self.parts = list(parts)
        self.needs_hidden = any(part.needs_hidden for part in parts)
        self.ledgers = [Ledger() for _ in parts]
        self._is_gated = is_gated
        self._calibration = Calibration(_prior)
        self._awake = list(range(len(parts)))
        # Work since the last step began, and tokens written by then: what a token costs here.
        self._began = 0.0
        self._seconds_per_token = 0.0

    def read_vocabulary(self, tokenizer: Any) -> None:
        for part in self.parts:
            part.read_vocabulary(tokenizer)

    def begin(self, row: Sequence) -> None:
        for i, part in enumerate(self.parts):
            with self._timed(i):
                part.begin(row)

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        self._began = time.thread_time()
        self._awake = [i for i, ledger in enumerate(self.ledgers) if not ledger.resting]
        proposed: list[list[DraftTree]] = []
        for i in self._awake:
            with self._timed(i):
                proposed.append(self.parts[i].propose(rows, max_nodes))
        if len(self._awake) == 1:
            # Nothing to merge: the part's own scores and origins serve.
            return proposed[0]
        return [
            self._grow([(i, trees[r]) for i, trees in zip(self._awake, proposed, strict=True)], limit)
            for r, limit in enumerate(max_nodes)
        ]

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        written = sum(len(verdict.path) + 1 for verdict in verdicts)
        self._price((time.thread_time() - self._began) / written)
        for ledger in self.ledgers:
            ledger.rest(len(rows))
        if len(self._awake) == 1:
            self.parts[self._awake[0]].observe(rows, trees, verdicts, output)
            return
        for origin, accepted in tried(trees, verdicts):
            self._calibration.record(origin.key, accepted)
        for i in self._awake:
            part = self.parts[i]
            with self._timed(i):
                if part.needs_logits:
                    part.observe(rows, [_whole(tree, i) for tree in trees], verdicts, output)
                else:
                    views = [_own(tree, verdict, i) for tree, verdict in zip(trees, verdicts, strict=True)]
                    part.observe(rows, [tree for tree, _ in views], [verdict for _, verdict in views], output)
        if self._is_gated:
            self._gate(trees, verdicts)

    def end(self, row: Sequence) -> None:
        for i, part in enumerate(self.parts):
            with self._timed(i):
                part.end(row)

    @contextmanager
    def _timed(self, part: int) -> Iterator[None]:
        started = time.thread_time()
        yield
        if len(self._awake) > 1 and not self.ledgers[part].resting:
            self.ledgers[part].seconds += time.thread_time() - started

    def _price(self, seconds: float) -> None:
        """Follow what a token costs: a slow mean that an outlier hardly moves."""
        known = self._seconds_per_token
        self._seconds_per_token = known + 0.05 * (min(seconds, 4 * known) - known) if known else seconds

    def _gate(self, trees: Seq[DraftTree], verdicts: Seq[Verdict]) -> None:
        """Credit the accepted nodes; let rest who does not earn its time. Who has most accepted always stays."""
        accepted: list[Any] = [
            (tree.origins or ())[node]
            for tree, verdict in zip(trees, verdicts, strict=True)
            for node in verdict.path
        ]
        claims = [origin.claims for origin in accepted]
        for i in self._awake:
            mine = [claim for claim in claims if i in claim]
            self.ledgers[i].record(len(mine), sum(len(claim) == 1 for claim in mine), len(trees))
        best = max(self._awake, key=lambda i: self.ledgers[i].claimed / max(self.ledgers[i].steps, 1))
        for i in self._awake:
            if i != best:
                self.ledgers[i].judge(self._seconds_per_token)

    def _grow(self, trees: list[tuple[int, DraftTree]], limit: int) -> DraftTree:
        """All parts' nodes, likeliest first."""
        if limit < 1 or not any(len(tree) for _, tree in trees):
            return EMPTY_TREE
        root = _Node(-1)
        for part, tree in trees:
            _insert(root, part, tree)
        found: list[tuple[float, int, int, int, Origin]] = []
        self._collect(root, found)
        order = sorted(found, key=lambda item: -item[0])[:limit]
        places = {-1: -1} | {item[1]: i for i, item in enumerate(order)}
        return DraftTree(
            [item[3] for item in order],
            [places[item[2]] for item in order],
            [item[0] for item in order],
            None,
            [item[4] for item in order],
        )

    def _collect(self, root: _Node, found: list[tuple[float, int, int, int, Origin]]) -> None:
        """Score, number, parent's number, token and origin of every node, parents before children."""
        waiting = [(root, -1, 1.0)]
        while waiting:
            node, number, score = waiting.pop()
            children = list(node.children.values())
            if len(children) > 1:
                children.sort(key=lambda child: -max(child.estimates.values()))
            left = 1.0
            for rank, child in enumerate(children):
                part, surest = max(child.estimates.items(), key=lambda item: item[1])
                # Drafters that disagree cannot both be right: siblings share what the likelier ones leave.
                surest = min(surest, left)
                left -= surest
                key = Key(part, _step(surest), min(len(child.claims), 3), min(rank, 2))
                reach = score * self._calibration.estimate(key)
                if reach >= MIN_SCORE:
                    found.append((reach, len(found), number, child.token, Origin(key, child.claims)))
                    waiting.append((child, len(found) - 1, reach))


def _insert(root: _Node, part: int, tree: DraftTree) -> None:
    """Add a part's tree. Its estimate of a node is the node's score over its parent's."""
    nodes: list[_Node] = []
    for i, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
        above = nodes[parent] if parent >= 0 else root
        node = above.children.get(token)
        if node is None:
            node = above.children[token] = _Node(token)
        nodes.append(node)
        estimate = 0.5
        if tree.scores is not None:
            base = tree.scores[parent] if parent >= 0 else 1.0
            estimate = tree.scores[i] / base if base > 0 else 0.0
        if part not in node.estimates or estimate > node.estimates[part]:
            node.estimates[part] = estimate
            node.claims[part] = None if tree.origins is None else tree.origins[i]


def _whole(tree: DraftTree, part: int) -> DraftTree:
    """The merged tree as one part sees it: nodes that are not its own have no origin."""
    origins: Seq[Any] = tree.origins or ()
    claims = [origin.claims.get(part) for origin in origins]
    return DraftTree(tree.tokens, tree.parents, tree.scores, None, claims)


def _own(tree: DraftTree, verdict: Verdict, part: int) -> tuple[DraftTree, Verdict]:
    """The nodes of one part alone, and what became of them."""
    origins: Seq[Any] = tree.origins or ()
    kept = [node for node, origin in enumerate(origins) if part in origin.claims]
    places = {-1: -1} | {node: i for i, node in enumerate(kept)}
    path = [node for node in verdict.path if node in places]
    left = verdict.path[len(path) :]
    view = DraftTree(
        [tree.tokens[node] for node in kept],
        [places[tree.parents[node]] for node in kept],
        None if tree.scores is None else [tree.scores[node] for node in kept],
        None,
        [origins[node].claims[part] for node in kept],
    )
    bonus = tree.tokens[left[0]] if left else verdict.bonus
    return view, Verdict(tuple(places[node] for node in path), bonus)


def _step(estimate: float) -> int:
    """Tenths up to `_SURE`; above, every halving of what is missing to 1 is two steps."""
    if estimate < _SURE:
        return int(10 * estimate)
    missing = max(1.0 - estimate, 1e-9) / (1.0 - _SURE)
    return 7 + min(int(-2.0 * log2(missing)), _SURE_STEPS - 1)


def _prior(key: Key) -> float:
    """What the surest drafter thinks (the middle of its step), and a little more where others agree."""
    missing = 1.0 - (key.step + 0.5) / 10 if key.step < 7 else (1.0 - _SURE) * 0.5 ** ((key.step - 6.5) / 2)
    estimate = 1.0 - missing
    return estimate + (1 - estimate) * 0.2 * (key.agreement - 1)
