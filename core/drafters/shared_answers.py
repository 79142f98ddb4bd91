"""Texts that were written earlier, kept to be copied from: a memory that lives longer than a request."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Seq

from core.drafters.suffix_trie import SuffixTrie

#: Longer matches within earlier answers are rare.
MAX_MATCH = 4


class SharedAnswers:
    """The last `max_tokens` tokens that were written, oldest out first.

    A token costs some 200 bytes, so the default keeps within 13 MB. Whoever shares it shares its texts' influence on
    speed, never on output; keep one for each group of people who may read the same documents.
    """

    def __init__(self, max_tokens: int = 65_536) -> None:
        if max_tokens < 1:
            raise ValueError(
                f"max_tokens={max_tokens} must be at least 1; to keep no answers pass none of these"
            )
        self.max_tokens = max_tokens
        self._texts: deque[list[int]] = deque()
        self._size = 0
        self.trie = SuffixTrie(MAX_MATCH)

    def __len__(self) -> int:
        """Tokens kept."""
        return self._size

    def add(self, tokens: Seq[int]) -> None:
        """Keep a text; at the bound a quarter of the memory is let go at once, so that rebuilding is rare."""
        text = list(tokens[-self.max_tokens :])
        self._texts.append(text)
        self._size += len(text)
        if self._size <= self.max_tokens:
            self.trie.add(text)
            return
        while self._size > max(3 * self.max_tokens // 4, len(text)):
            self._size -= len(self._texts.popleft())
        self.trie = SuffixTrie(MAX_MATCH)
        for kept in self._texts:
            self.trie.add(kept)
