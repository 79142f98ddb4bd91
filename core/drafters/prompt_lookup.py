"""Prompt lookup decoding, the well-known baseline (Saxena 2023; transformers' `prompt_lookup_num_tokens`).

The last `max_ngram` tokens (then fewer) are searched in the row's own decoder tokens; the first occurrence
wins and the tokens behind it are the draft. With an encoder-decoder model it cannot see the source, as published.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

from core.drafters.base import Drafter
from core.types import EMPTY_TREE, DraftTree, Sequence


class PromptLookup(Drafter):
    """Chain of at most `num_tokens` tokens behind the first earlier occurrence of the last n-gram."""

    def __init__(self, max_ngram: int = 2, num_tokens: int = 10) -> None:
        self.max_ngram = max_ngram
        self.num_tokens = num_tokens

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        return [
            self._lookup(row.tokens, min(n, self.num_tokens)) for row, n in zip(rows, max_nodes, strict=True)
        ]

    def _lookup(self, tokens: list[int], limit: int) -> DraftTree:
        for size in range(min(self.max_ngram, len(tokens) - 1), 0, -1):
            suffix = tokens[-size:]
            for start in range(len(tokens) - size):
                if tokens[start : start + size] == suffix:
                    draft = tokens[start + size : start + size + limit]
                    return DraftTree(draft, list(range(-1, len(draft) - 1)))
        return EMPTY_TREE
