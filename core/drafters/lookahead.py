"""Lookahead decoding: n-grams from Jacobi trajectories are pooled and verified (Fu et al. 2402.02057).

A window of guesses is improved by Jacobi iteration as in `jacobi`. Read across iterations (place p of one, p + 1 of
the next, ...), guesses form n-grams that the target wrote itself; those that begin with the pending token are drafted
beside the window. The published method runs several iterations' guesses in one pass under a mask of its own; here a
pass holds one window, a chain of the tree, and iterations are passes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence as Seq
from typing import Any

from core.drafters.base import Drafter
from core.drafters.calibration import Calibration
from core.drafters.jacobi import improved
from core.drafters.top_tokens import best_tokens
from core.drafters.tree_builder import TreeBuilder
from core.drafters.trials import tried
from core.targets.base import PassOutput
from core.types import DraftTree, Sequence, Verdict

Key = tuple[str, int]
"""Pool or window, and the place among the pending token's n-grams (newest first) or in the window"""

_PRIORS = {"pool": 0.4, "window": 0.2, "yield": 0.2}


class _RowState:
    """The window of one row, its past, and the n-grams found so far."""

    def __init__(self, num_tokens: int) -> None:
        self.window: list[int] = []
        #: How many of the window's guesses are what the target chose in the last pass.
        self.num_fresh = 0
        #: Of each of the last passes: place of the window's first guess, the guesses, how many were fresh.
        self.past: list[tuple[int, list[int], int]] = []
        #: First token -> n-grams behind it, the newest last.
        self.pool: dict[int, OrderedDict[tuple[int, ...], None]] = {}
        self.num_tokens = num_tokens


class Lookahead(Drafter):
    """Trees of at most `num_candidates` n-grams of the pool (each of `ngram` tokens, the pending one first) and a
    window of `window` guesses.

    `reads_prompt` fills the pool from the row's prompt too. Memory of a running row: at most `num_candidates` n-grams
    behind each of `max_keys` tokens, some 200 bytes each (3 MB when full).
    """

    needs_logits = True

    def __init__(
        self,
        window: int = 7,
        ngram: int = 4,
        num_candidates: int = 7,
        reads_prompt: bool = False,
        max_keys: int = 2048,
    ) -> None:
        if window < 1 or ngram < 2 or num_candidates < 1 or max_keys < 1:
            raise ValueError(
                f"{window=}, {num_candidates=} and {max_keys=} must be at least 1, {ngram=} at least 2"
            )
        self._window = window
        self._ngram = ngram
        self._num_candidates = num_candidates
        self._reads_prompt = reads_prompt
        self._max_keys = max_keys
        self._calibration = Calibration(lambda key: _PRIORS[key[0]])
        self._rows: dict[int, _RowState] = {}

    def begin(self, row: Sequence) -> None:
        state = self._rows[row.id] = _RowState(len(row.tokens))
        if self._reads_prompt:
            for start in range(len(row.prompt_ids) - self._ngram + 1):
                self._pool(state, row.prompt_ids[start : start + self._ngram])

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        trees = []
        for row, limit in zip(rows, max_nodes, strict=True):
            state = self._rows[row.id]
            state.num_tokens = len(row.tokens)
            # Places without a guess start from any token; the last one is as good as another.
            state.window += [row.tokens[-1]] * (self._window - len(state.window))
            trees.append(self._grow(state, row.tokens[-1]).build(limit))
        return trees

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        self._calibration.record_all(tried(trees, verdicts))
        best = best_tokens(trees, output)
        for row, tree, verdict in zip(rows, trees, verdicts, strict=True):
            here, best = best[: 1 + len(tree)], best[1 + len(tree) :]
            self._record_yield(tree, verdict)
            self._iterate(self._rows[row.id], tree, here, len(verdict.path))

    def end(self, row: Sequence) -> None:
        self._rows.pop(row.id)

    def _grow(self, state: _RowState, pending: int) -> TreeBuilder:
        """The pool's n-grams, newest first, and the window.

        A window earns more than it has accepted: it is where n-grams come from. Its nodes are worth at least what
        they yielded.
        """
        estimate = self._calibration.estimate
        builder = TreeBuilder()
        for rank, ngram in enumerate(reversed(state.pool.get(pending, ()))):
            node, score = -1, 1.0
            for token in ngram:
                score *= estimate(("pool", rank))
                node = builder.add(node, token, score, ("pool", rank))
        node, score = -1, 1.0
        earned = estimate(("yield", 0))
        for place, token in enumerate(state.window):
            score *= estimate(("window", place))
            node = builder.add(node, token, max(score, earned), ("window", place), is_main=True)
        return builder

    def _record_yield(self, tree: DraftTree, verdict: Verdict) -> None:
        """Accepted tokens of the pool for each verified node of a window."""
        accepted = set(verdict.path)
        origins: Seq[Any] = tree.origins or ()
        for node, origin in enumerate(origins):
            if origin is not None and (origin[0] == "window" or node in accepted):
                self._calibration.record(("yield", 0), origin[0] == "pool")

    def _iterate(self, state: _RowState, tree: DraftTree, best: Seq[int], num_accepted: int) -> None:
        """One Jacobi step of the window; n-grams that it completes join the pool."""
        origins: Seq[Any] = tree.origins or ()
        nodes = [n for n, origin in enumerate(origins) if origin is not None and origin[0] == "window"]
        places = [origins[n][1] for n in nodes]
        assert places == list(range(len(places))), "a window is cut at its end"
        chosen = [best[0], *(best[1 + node] for node in nodes)]
        state.past.append((state.num_tokens, state.window[: len(nodes)], state.num_fresh))
        del state.past[: -(self._ngram - 1)]
        self._collect(state, chosen)
        state.window = improved(state.window, nodes, best, num_accepted)
        state.num_fresh = max(len(nodes) - num_accepted, 0)

    def _collect(self, state: _RowState, chosen: list[int]) -> None:
        """N-grams across the last iterations that end in one of the new guesses."""
        if len(state.past) < self._ngram - 1:
            return
        for i, token in enumerate(chosen):
            # The new guess stands at this place; the one from the pass before it one place further left, and so on.
            place = state.num_tokens + i
            ngram = [token]
            for back, (start, guesses, num_fresh) in enumerate(reversed(state.past), 1):
                offset = place - back - start
                # Any guess may begin an n-gram; further ones must have been chosen behind the one before.
                if (
                    not 0
                    <= offset
                    < (len(guesses) if back == len(state.past) else min(len(guesses), num_fresh))
                ):
                    break
                ngram.append(guesses[offset])
            if len(ngram) == self._ngram:
                self._pool(state, ngram[::-1])

    def _pool(self, state: _RowState, ngram: list[int]) -> None:
        behind = state.pool.setdefault(ngram[0], OrderedDict())
        key = tuple(ngram[1:])
        behind[key] = None
        behind.move_to_end(key)
        if len(behind) > self._num_candidates:
            behind.popitem(last=False)
        if len(state.pool) > self._max_keys:
            del state.pool[next(iter(state.pool))]
