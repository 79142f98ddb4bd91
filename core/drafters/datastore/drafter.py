"""Drafts from a datastore (REST, He et al. 2311.08252): continuations of the longest match in a corpus.

Knows a sorted corpus and rows. The published method keeps the 64 most frequent prefixes of the continuations; here
nodes are expanded best first by calibrated estimates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from core.drafters.base import Drafter
from core.drafters.calibration import Calibration
from core.drafters.datastore.contexts import MAX_CONTEXT, Contexts, sort_places
from core.drafters.datastore.store import open_store
from core.drafters.growth import Guess, best_first
from core.drafters.token_files import read_tokens
from core.drafters.trials import tried
from core.targets.base import PassOutput
from core.types import EMPTY_TREE, DraftTree, Sequence, Verdict

_STEPS = 8
#: A store that learns is sorted for the first time when it has so many tokens, then at every doubling.
_FIRST_SORT = 64


class Key(NamedTuple):
    """Tokens matched so far, share of the continuation in eighths, whether it was seen more than once."""

    length: int
    share: int
    is_repeated: bool


class Datastore(Drafter):
    """Trees of what followed the longest match of at least `min_length` tokens.

    `path` names a folder that `python -m core.drafters.datastore build` made; it is mapped, so memory is the file
    system's. `corpus` is sorted in memory instead (token ids, or a file, see `read_tokens`; 8 bytes a token). Without
    either the store learns: it holds the first `max_learnt` tokens that the engine writes (48 bytes each, 13 MB when
    full). At most `max_continuations` occurrences, spread evenly over all, are looked at.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        path: str | Path | None = None,
        corpus: Seq[int] | str | Path | None = None,
        tokenizer: Any = None,
        min_length: int = 2,
        max_continuations: int = 64,
        max_depth: int = 10,
        max_learnt: int = 1 << 18,
    ) -> None:
        if path is not None and corpus is not None:
            raise ValueError(f"{path=} and a corpus were given; give one of them")
        if min(min_length, max_continuations, max_depth) < 1:
            raise ValueError(f"{min_length=}, {max_continuations=} and {max_depth=} must be at least 1")
        self._separator = vocab_size
        self._min_length = min_length
        self._max_continuations = max_continuations
        self._max_depth = max_depth
        self._max_learnt = max_learnt if path is None and corpus is None else 0
        self._learnt: list[int] = []
        self._calibration = Calibration(_prior)
        if path is not None:
            self._contexts = open_store(Path(path), vocab_size)[0]
        else:
            self._sort(
                np.zeros(0, np.int64) if corpus is None else read_tokens(corpus, vocab_size, tokenizer)
            )

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        return [
            self._grow(row.tokens[-MAX_CONTEXT:], limit) if limit > 0 else EMPTY_TREE
            for row, limit in zip(rows, max_nodes, strict=True)
        ]

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        self._calibration.record_all(tried(trees, verdicts))

    def end(self, row: Sequence) -> None:
        room = self._max_learnt - len(self._learnt)
        if len(row.output_ids) >= room:
            return
        self._learnt += [*row.output_ids, self._separator]
        if len(self._learnt) >= max(_FIRST_SORT, 2 * len(self._contexts.tokens)):
            self._sort(np.array(self._learnt, np.int64))

    def _sort(self, tokens: Any) -> None:
        places = sort_places(tokens).astype(np.uint32)
        self._contexts = Contexts(tokens.astype(np.uint32), places)

    def _grow(self, written: list[int], limit: int) -> DraftTree:
        places, length = self._contexts.longest_match(written)
        if length < self._min_length:
            return EMPTY_TREE
        stride = -(-len(places) // self._max_continuations)
        # A place is where the next token stands; those of a state agree on all tokens so far.
        root = places[::stride].astype(np.int64)
        return best_first((root, length), self._children, limit, self._max_depth)

    def _children(self, state: tuple[Any, int]) -> list[Guess]:
        places, length = state
        places = places[places < len(self._contexts.tokens)]
        following = self._contexts.tokens[places]
        counts = Counter(following.tolist())
        guesses = []
        for token, count in counts.items():
            if token != self._separator:
                key = Key(min(length, MAX_CONTEXT), _STEPS * count // len(places), count > 1)
                behind = (places[following == token] + 1, length + 1)
                guesses.append((token, self._calibration.estimate(key), key, behind))
        return guesses


def _prior(key: Key) -> float:
    """The share among the occurrences, less for short matches and for what was seen once."""
    ratio = min(key.share + 0.5, _STEPS) / _STEPS
    return ratio * (1 - 0.6 * 0.75 ** (key.length + 2 * key.is_repeated))
