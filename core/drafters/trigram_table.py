"""Which tokens follow two given ones, and how probably: a bounded table of the target's output distribution.

Knows token ids and probabilities. Does not know trees or rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence as Seq
from operator import itemgetter

#: Successors less probable than this are not kept: most contexts are nearly certain, so entries are short.
MIN_PROB = 0.02

Entry = list[tuple[int, float]]
"""Successors and their probabilities, likeliest first."""

_probability = itemgetter(1)


class TrigramTable:
    """The `num_successors` likeliest successors of at most `num_contexts` contexts.

    A context is a pair of tokens, or the last one alone (looked up where the pair is unknown). The one that was not
    updated for the longest time goes first. Memory: some 400 bytes for each context with two successors, 13 MB for
    the default number of contexts.
    """

    def __init__(self, num_successors: int = 4, num_contexts: int = 1 << 15) -> None:
        if num_successors < 1 or num_contexts < 2:
            raise ValueError(f"{num_successors=} must be at least 1 and {num_contexts=} at least 2")
        self.num_successors = num_successors
        self.num_contexts = num_contexts
        self._entries: OrderedDict[tuple[int, int], Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def copy(self) -> TrigramTable:
        """A table of its own with the same entries."""
        made = TrigramTable(self.num_successors, self.num_contexts)
        made._entries = self._entries.copy()
        return made

    def lookup(self, first: int, second: int) -> tuple[Entry, bool]:
        """What follows the two tokens, and whether only the last one was known."""
        entry = self._entries.get((first, second))
        if entry is not None:
            return entry, False
        return self._entries.get((-1, second), []), True

    def update(self, first: int, second: int, successors: Entry, rate: float) -> None:
        """Move the distribution behind the two tokens, and behind the last alone, towards `successors` (likeliest
        first) by `rate`. Where nothing was known it becomes the distribution."""
        entries = self._entries
        for context in ((first, second), (-1, second)):
            old = entries.get(context)
            if old is None:
                entries[context] = successors
                if len(entries) > self.num_contexts:
                    entries.popitem(last=False)
                continue
            entries.move_to_end(context)
            token, kept = old[0]
            if len(old) == len(successors) == 1 and token == successors[0][0]:  # mostly
                entries[context] = [(token, kept + rate * (successors[0][1] - kept))]
            else:
                entries[context] = successors if rate == 1.0 else self._mixed(old, successors, rate)

    def read(self, tokens: Seq[int], rate: float) -> None:
        """Learn from a text, one trigram after the other."""
        for i in range(1, len(tokens)):
            self.update(tokens[i - 2] if i > 1 else -1, tokens[i - 1], [(tokens[i], 1.0)], rate)

    def count(self, tokens: Seq[int]) -> None:
        """Warm up with a corpus: its contexts' distributions become the counts in it; the most frequent contexts
        stay where there are more than fit."""
        for size in (1, 2):
            counts: dict[tuple[int, int], dict[int, int]] = {}
            for i in range(size, len(tokens)):
                context = (tokens[i - 2] if size == 2 else -1, tokens[i - 1])
                successors = counts.setdefault(context, {})
                successors[tokens[i]] = successors.get(tokens[i], 0) + 1
            totals = {context: sum(successors.values()) for context, successors in counts.items()}
            # Singles come first and are fewer; the pairs take what is left.
            room = self.num_contexts // 2 if size == 1 else self.num_contexts - len(self._entries)
            for context in sorted(counts, key=lambda c: -totals[c])[:room]:
                ranked = sorted(counts[context].items(), key=lambda item: (-item[1], item[0]))
                shares = [(token, count / totals[context]) for token, count in ranked[: self.num_successors]]
                self._entries[context] = [s for i, s in enumerate(shares) if i == 0 or s[1] >= MIN_PROB]

    def _mixed(self, old: Entry, new: Entry, rate: float) -> Entry:
        stays = 1 - rate
        mixed = {token: prob * stays for token, prob in old}
        for token, prob in new:
            mixed[token] = mixed.get(token, 0.0) + prob * rate
        ranked = sorted(mixed.items(), key=_probability, reverse=True)
        del ranked[self.num_successors :]
        while len(ranked) > 1 and ranked[-1][1] < MIN_PROB:
            ranked.pop()
        return ranked
