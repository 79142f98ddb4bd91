"""SAM-Decoding: copy on from the longest match, found with suffix automata (Hu et al. 2411.10666).

One automaton grows with each row (prompt, sources, output), one holds a corpus that does not change. The row's own
match is preferred unless the corpus has one that is `bias` tokens longer; a chain behind its first occurrence is the
draft. The published method hands over to another drafter where matches are short: `merged` does that here.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

from core.drafters.base import Drafter
from core.drafters.calibration import Calibration
from core.drafters.growth import Guess, chain
from core.drafters.row_texts import texts_beside
from core.drafters.suffix_automaton import SEPARATOR, SuffixAutomaton
from core.drafters.token_files import read_tokens
from core.drafters.trials import tried
from core.targets.base import PassOutput
from core.types import DraftTree, Sequence, Verdict

_MAX_LENGTH = 16


class _RowState:
    def __init__(self) -> None:
        self.automaton = SuffixAutomaton()
        self.num_read = 0
        #: State and length of the match in the row's own automaton and in the corpus.
        self.own = (0, 0)
        self.corpus = (0, 0)

    def catch_up(self, row: Sequence, corpus: SuffixAutomaton) -> None:
        for token in row.tokens[self.num_read :]:
            # First match, then append: a text always matches itself.
            self.own = self.automaton.advance(*self.own, token)
            self.automaton.append(token)
            self.corpus = corpus.advance(*self.corpus, token)
        self.num_read = len(row.tokens)


class Sam(Drafter):
    """Chains of at most `max_nodes` tokens behind the longest match, where it has at least `min_length` tokens.

    `corpus`: token ids, or a file of ids or text (see `read_tokens`; text needs `tokenizer`), of which the first
    `max_corpus_tokens` are taken. Memory: some 700 bytes for each token of the corpus (92 MB when full; `datastore`
    is for larger ones) and of the running rows.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        corpus: Seq[int] | str | Path | None = None,
        tokenizer: Any = None,
        max_corpus_tokens: int = 1 << 17,
        max_nodes: int = 40,
        min_length: int = 1,
        bias: int = 5,
    ) -> None:
        if min(max_nodes, min_length) < 1:
            raise ValueError(f"{max_nodes=} and {min_length=} must be at least 1")
        self._max_nodes = max_nodes
        self._min_length = min_length
        self._bias = bias
        self._corpus = SuffixAutomaton()
        if corpus is not None:
            tokens = read_tokens(corpus, vocab_size, tokenizer)
            self._corpus.extend(tokens[:max_corpus_tokens].tolist())
        self._calibration = Calibration(_prior)
        self._rows: dict[int, _RowState] = {}

    def begin(self, row: Sequence) -> None:
        state = self._rows[row.id] = _RowState()
        for text in texts_beside(row):
            state.automaton.extend([*text, SEPARATOR])

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        trees = []
        for row, limit in zip(rows, max_nodes, strict=True):
            state = self._rows[row.id]
            state.catch_up(row, self._corpus)
            trees.append(chain(self._guesses(state, min(limit, self._max_nodes)), limit))
        return trees

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        self._calibration.record_all(tried(trees, verdicts))

    def end(self, row: Sequence) -> None:
        self._rows.pop(row.id)

    def _guesses(self, state: _RowState, limit: int) -> list[Guess]:
        is_own = state.own[1] >= state.corpus[1] - self._bias
        automaton = state.automaton if is_own else self._corpus
        place, length = state.own if is_own else state.corpus
        if length < self._min_length:
            return []
        start = automaton.first_end(place)
        guesses: list[Guess] = []
        for i, token in enumerate(automaton.text[start : start + limit]):
            if token == SEPARATOR:
                break
            key = (is_own, min(length + i, _MAX_LENGTH))
            guesses.append((token, self._calibration.estimate(key), key, None))
        return guesses


def _prior(key: tuple[bool, int]) -> float:
    """A long match goes on more probably than a short one."""
    return 0.95 - 0.75 * 0.75 ** key[1]
