"""Draft trees grown best first from what several sources say, asked one after another.

Knows scores. At every node the sources (`Level`s) are asked in a fixed order, each only for what the ones before it
missed: its learnt hit rate is the chance that the truth is among its options, given that no earlier level had it
(the escape probabilities of PPM, Cleary & Witten 1984, learnt online as in Bloom's secondary estimation). What is not
claimed yet waits in the same queue as the guesses, so that a level costs nothing until it could matter.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from collections.abc import Sequence as Seq
from heapq import heappop, heappush
from typing import Any, NamedTuple, Protocol

from core.drafters.calibration import Calibration
from core.types import DraftTree, Verdict


class Level(NamedTuple):
    """What one source proposes at a node: (token, share of the level's hits, where it leads)."""

    key: Hashable
    options: Seq[tuple[int, float, Any]]


class Stretch(NamedTuple):
    """Tokens that probably follow one another, from `start` on; `keys[i]` is the level of `tokens[i]`."""

    tokens: Seq[int]
    keys: Seq[Hashable]
    start: int


class Sources(Protocol):
    """What a tree is grown from. A state is whatever the sources must know of the path to a node."""

    def levels(self, state: Any) -> Iterator[Level]:
        """The sources' say behind a state, the one that is asked first in front."""
        ...

    def follow(self, state: Any, token: int, lead: Any) -> Any:
        """The state behind an option."""
        ...

    def stretch(self, state: Any) -> Stretch | None:
        """What is copied from here on, where that is the first level of every state on the way."""
        ...

    def along(self, state: Any, stretch: Stretch, position: int) -> Any:
        """The state in front of `tokens[position]` when the stretch was followed from `state`."""
        ...


class _Opened(NamedTuple):
    """A node whose sources are being asked: its place in the tree, its state, the levels to come and those had."""

    node: int
    state: Any
    levels: Iterator[Level]
    had: list[Level]


class _Growth:
    """A tree under way. The queue holds guesses (token, lead) and chances that nobody has claimed (token None)."""

    def __init__(
        self, sources: Sources, calibration: Calibration, limit: int, end: frozenset[int], min_score: float
    ) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.scores: list[float] = []
        self.origins: list[object] = []
        self._sources = sources
        self._estimate = calibration.estimate
        self._limit = limit
        self._end = end
        self._min_score = min_score
        self._heap: list[tuple[float, int, int | None, Any, _Opened]] = []
        self._serial = 0

    def grow(self, root: Any) -> DraftTree:
        """Always the likeliest guess next."""
        self._open(-1, root, 1.0)
        while self._heap and len(self.tokens) < self._limit:
            negative, _, token, lead, opened = heappop(self._heap)
            if token is None:
                self._ask(opened, -negative)
            else:
                node = self._append(opened.node, token, -negative, opened.had)
                if token not in self._end:
                    self._open(node, self._sources.follow(opened.state, token, lead), -negative)
        return DraftTree(self.tokens, self.parents, self.scores, None, self.origins)

    def _append(self, parent: int, token: int, chance: float, origin: object) -> int:
        self.tokens.append(token)
        self.parents.append(parent)
        self.scores.append(chance)
        self.origins.append(origin)
        return len(self.tokens) - 1

    def _push(self, chance: float, token: int | None, lead: Any, opened: _Opened) -> None:
        if chance >= self._min_score:
            self._serial += 1
            heappush(self._heap, (-chance, self._serial, token, lead, opened))

    def _ask(self, opened: _Opened, chance: float) -> None:
        """Queue what the next level proposes that no level before it had, and what it leaves."""
        claimed = {option[0] for level in opened.had for option in level.options}
        for level in opened.levels:
            options = [option for option in level.options if option[0] not in claimed]
            if options:
                opened.had.append(Level(level.key, options))
                hit = self._estimate(level.key)
                for token, share, lead in options:
                    self._push(chance * hit * share, token, lead, opened)
                self._push(chance * (1 - hit), None, None, opened)
                return

    def _open(self, node: int, state: Any, chance: float) -> None:
        """Ask at a new node. A stretch is followed at once while nothing in the queue is likelier."""
        sources, estimate = self._sources, self._estimate
        stretch = sources.stretch(state)
        if stretch is None:
            self._ask(_Opened(node, state, sources.levels(state), []), chance)
            return
        tokens, keys, position = stretch
        while len(self.tokens) < self._limit:
            here = None
            taken = chance * estimate(keys[position]) if position < len(tokens) else 0.0
            is_next = taken >= self._min_score and taken >= chance - taken
            is_next = is_next and not (self._heap and taken < -self._heap[0][0])
            if not is_next or chance - taken >= self._min_score:
                here = sources.along(state, stretch, position)
                opened = _Opened(node, here, sources.levels(here), [])
                if not is_next:
                    self._ask(opened, chance)
                    return
                opened.had.append(next(opened.levels))
                self._push(chance - taken, None, None, opened)
            origin = keys[position] if here is None else opened.had
            node, chance = self._append(node, tokens[position], taken, origin), taken
            if tokens[position] in self._end:
                return
            position += 1


def grow(
    sources: Sources,
    root: Any,
    calibration: Calibration,
    limit: int,
    end_tokens: frozenset[int],
    min_score: float,
) -> DraftTree:
    """A tree of at most `limit` nodes behind the state `root`, likeliest nodes first.

    Nodes that are reached with a chance below `min_score` are not worth a slot, however large the limit.
    """
    return _Growth(sources, calibration, limit, end_tokens, min_score).grow(root)


def learn(calibration: Calibration, tree: DraftTree, verdict: Verdict) -> None:
    """Record, at every node that was reached, which level had the token that came."""
    if tree.origins is None:
        return
    had_at: dict[int, list[Level]] = {}
    for parent, token, origin in zip(tree.parents, tree.tokens, tree.origins, strict=True):
        if isinstance(origin, list):
            had_at.setdefault(parent, origin)
        elif origin is not None:  # a stretch; None: another drafter's node
            had_at.setdefault(parent, [Level(origin, ((token, 1.0, None),))])
    truth = [*(tree.tokens[node] for node in verdict.path), verdict.bonus]
    for node, token in zip((-1, *verdict.path), truth, strict=True):
        for level in had_at.get(node, ()):
            hit = any(option[0] == token for option in level.options)
            calibration.record(level.key, hit)
            if hit:
                break
