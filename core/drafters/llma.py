"""LLMA, the well-known way to copy from references (Yang et al. 2304.04487; LMOps' `llma/src/decode.py`).

The longest suffix of the output, of five tokens down to one, that occurs in the references; its first occurrence, in
the order of the references; a chain of the tokens behind it. Looks at references only: neither at the prompt nor at
what was written before. Without references the prompt is the reference (a text that is being rewritten).
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

from core.drafters.base import Drafter
from core.types import EMPTY_TREE, DraftTree, Sequence


class Llma(Drafter):
    """Chain of at most `block_size - 1` tokens: a block of k tokens is read in one pass, the pending one first."""

    def __init__(self, min_ngram: int = 1, max_ngram: int = 5, block_size: int = 20) -> None:
        self.min_ngram = min_ngram
        self.max_ngram = max_ngram
        self.block_size = block_size
        # Of each row: what follows the first occurrence of every n-gram.
        self._firsts: dict[int, dict[tuple[int, ...], tuple[list[int], int]]] = {}

    def begin(self, row: Sequence) -> None:
        firsts: dict[tuple[int, ...], tuple[list[int], int]] = {}
        for text in row.source_ids or [row.prompt_ids]:
            for end in range(1, len(text) + 1):
                for size in range(self.min_ngram, min(self.max_ngram, end) + 1):
                    firsts.setdefault(tuple(text[end - size : end]), (text, end))
        self._firsts[row.id] = firsts

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        return [
            self._copied(row, min(limit, self.block_size - 1))
            for row, limit in zip(rows, max_nodes, strict=True)
        ]

    def end(self, row: Sequence) -> None:
        self._firsts.pop(row.id)

    def _copied(self, row: Sequence, limit: int) -> DraftTree:
        written = row.tokens[max(row.num_prompt, len(row.tokens) - self.max_ngram) :]
        firsts = self._firsts[row.id]
        for size in range(len(written), self.min_ngram - 1, -1):
            found = firsts.get(tuple(written[len(written) - size :]))
            if found is not None:
                text, end = found
                draft = text[end : end + limit]
                return DraftTree(draft, list(range(-1, len(draft) - 1)))
        return EMPTY_TREE
