"""ADED: a trigram table of the target's output distribution that learns while decoding, and a draft tree found in
it by Monte-Carlo tree search (Adaptive Draft-Verification, Liu et al. 2407.12021).

As the paper says (its published code only counts text), the table learns from the logits at every verified node,
rejected ones too. Unlike both, a pair of tokens that is unknown falls back to the last token alone, prompts are
counted too, and probabilities are calibrated: how often did guesses that looked so probable come true?
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from core.drafters.base import Drafter
from core.drafters.calibration import Calibration
from core.drafters.growth import Guess, best_first
from core.drafters.token_files import read_tokens
from core.drafters.top_tokens import likely_tokens
from core.drafters.tree_search import SearchOptions, search
from core.drafters.trials import tried
from core.drafters.trigram_table import MIN_PROB, TrigramTable
from core.targets.base import PassOutput
from core.types import EMPTY_TREE, DraftTree, Sequence, Verdict

#: Calibration cells: pair known or only the last token; rank 0, 1 and further; so many steps of probability.
_RANKS = 3
_STEPS = 12
#: Logits that are kept to be learnt from together, at most, and those of one pass more.
_MOST_NUMBERS = 1 << 19


class _Seen(NamedTuple):
    """A pass to learn from: each row's table and last two tokens before it, the trees and the logits."""

    behind: list[tuple[TrigramTable, tuple[int, int]]]
    trees: Seq[DraftTree]
    output: PassOutput


class AdaptiveTrigram(Drafter):
    """Trees of the tokens that probably follow the last two.

    `corpus` (token ids, or a file of ids or text, see `read_tokens`; text needs `tokenizer`) warms the table;
    `is_adaptive=False` leaves it as it is then. `adaptation` is the weight of a new distribution against the old one
    of its context, `prompt_weight` that of a trigram in a prompt (0: prompts are not read). `scope`: one table for
    the engine's life, or one for each request; outputs are the same. `constants` are those of the search, with its
    ablations; single ones may be given by name (`exploration=0`, `is_search=False`). On the CPU up to `lag` passes
    are learnt from together, which takes little longer than one: a text seldom comes back so soon.

    Memory: the table's, 13 MB by default (see `TrigramTable`), and 2 MB of logits; where the scope is a request,
    the table's is that of `request_contexts` (1.6 MB) for each running one.
    """

    needs_logits = True

    def __init__(
        self,
        vocab_size: int,
        *,
        corpus: Seq[int] | str | Path | None = None,
        tokenizer: Any = None,
        scope: Literal["engine", "request"] = "engine",
        is_adaptive: bool = True,
        adaptation: float = 0.5,
        prompt_weight: float = 0.5,
        lag: int = 4,
        num_successors: int = 4,
        num_contexts: int = 1 << 15,
        request_contexts: int = 1 << 12,
        eos_token_ids: frozenset[int] = frozenset(),
        constants: SearchOptions | None = None,
        **single: float,
    ) -> None:
        if scope not in ("engine", "request"):
            raise ValueError(f"scope={scope!r}; choose 'engine' or 'request'")
        for name, weight in (("adaptation", adaptation), ("prompt_weight", prompt_weight)):
            if not 0 <= weight <= 1:
                raise ValueError(f"{name}={weight} must lie in [0, 1]")
        if lag < 1:
            raise ValueError(f"lag={lag} must be at least 1")
        self.constants = replace(constants or SearchOptions(), **single)  # type: ignore[arg-type]
        self.table = TrigramTable(num_successors, num_contexts if scope == "engine" else request_contexts)
        if corpus is not None:
            self.table.count(read_tokens(corpus, vocab_size, tokenizer).tolist())
        self._scope = scope
        self._adaptation = adaptation if is_adaptive else 0.0
        self._prompt_weight = prompt_weight if is_adaptive else 0.0
        self._eos = eos_token_ids
        self._lag = lag
        self._seen: list[_Seen] = []
        self._tables: dict[int, TrigramTable] = {}
        # Rows whose prompts were not read: a prompt is read when the first draft is asked for.
        self._unread: set[int] = set()
        # The last two tokens of each row when its tree was made: the context of the pass's first logits.
        self._contexts: dict[int, tuple[int, int]] = {}
        self._calibration = Calibration(_prior)
        self._estimates = [_prior(cell) for cell in range(2 * _RANKS * _STEPS)]

    def begin(self, row: Sequence) -> None:
        if self._seen:
            self._learn()
        self._tables[row.id] = self.table if self._scope == "engine" else self.table.copy()
        if self._prompt_weight:
            self._unread.add(row.id)

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        trees = []
        for row, limit in zip(rows, max_nodes, strict=True):
            context = self._contexts[row.id] = (row.tokens[-2] if len(row.tokens) > 1 else -1, row.tokens[-1])
            trees.append(self._grow(self._table(row), context, limit) if limit > 0 else EMPTY_TREE)
        return trees

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        for cell, accepted in tried(trees, verdicts):
            self._calibration.record(cell, accepted)
            self._estimates[cell] = self._calibration.estimate(cell)
        if self._adaptation:
            self._gather(rows, trees, output)

    def end(self, row: Sequence) -> None:
        self._tables.pop(row.id)
        self._contexts.pop(row.id, None)
        self._unread.discard(row.id)

    def _table(self, row: Sequence) -> TrigramTable:
        """What drafts for a row are made from."""
        table = self._tables[row.id]
        if row.id in self._unread:
            self._unread.remove(row.id)
            table.read(row.prompt_ids, self._prompt_weight)
        return table

    def _gather(self, rows: Seq[Sequence], trees: Seq[DraftTree], output: PassOutput) -> None:
        """Keep what a pass showed, and learn from the passes kept when there are enough."""
        behind = [(self._tables[row.id], self._contexts[row.id]) for row in rows]
        self._seen.append(_Seen(behind, trees, output))
        numbers = sum(seen.output.logits.numel() for seen in self._seen)
        # On a GPU the next pass may write over these logits.
        if len(self._seen) >= self._lag or numbers >= _MOST_NUMBERS or output.logits.device.type != "cpu":
            self._learn()

    def _learn(self) -> None:
        """Move the distribution behind every verified node towards the target's own."""
        passes = [(seen.trees, seen.output) for seen in self._seen]
        likely = likely_tokens(passes, self.table.num_successors, MIN_PROB)
        for seen in self._seen:
            for (table, (before, pending)), tree in zip(seen.behind, seen.trees, strict=True):
                seconds = (pending, *tree.tokens)
                # A node's parent is one place further in `seconds` than in the tree.
                firsts = (before, *(seconds[parent + 1] for parent in tree.parents))
                for first, second, successors in zip(firsts, seconds, likely, strict=False):
                    table.update(first, second, successors, self._adaptation)
        self._seen.clear()

    def _grow(self, table: TrigramTable, context: tuple[int, int], limit: int) -> DraftTree:
        estimates, eos = self._estimates, self._eos

        def children(state: tuple[int, int]) -> list[Guess]:
            first, second = state
            if second in eos:
                return []
            entry, is_backoff = table.lookup(first, second)
            base = _RANKS * _STEPS if is_backoff else 0
            guesses = []
            for rank, (token, prob) in enumerate(entry):
                cell = base + (rank if rank < _RANKS else _RANKS - 1) * _STEPS + int(prob * (_STEPS - 0.01))
                guesses.append((token, estimates[cell], cell, (second, token)))
            return guesses

        if self.constants.is_search:
            return search(context, children, limit, self.constants)
        return best_first(context, children, limit, self.constants.max_depth)


def _prior(cell: int) -> float:
    """First estimate of a cell: its probability, less where only the last token was known."""
    is_backoff, rest = divmod(cell, _RANKS * _STEPS)
    probability = (rest % _STEPS + 0.5) / _STEPS
    return probability * (0.5 if is_backoff else 0.9)
