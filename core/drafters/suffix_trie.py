"""What followed each context in texts that may grow: a suffix trie that is split only where it is asked.

Knows tokens. Taking in a token costs one dictionary entry; a context is told apart by the token before it when it is
first looked up, so that long prompts cost little until they are copied from.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq

#: Stands between two texts; no context runs across it.
GAP = -1


class Context:
    """Places that share the `length` tokens before them. `places[i]` is where the follower stands in the text."""

    __slots__ = ("_followers", "length", "longer", "places")

    def __init__(self, length: int) -> None:
        self.length = length
        self.places: list[int] = []
        self.longer: dict[int, Context] | None = None
        self._followers: dict[int, int] | None = None

    def followers(self, text: Seq[int]) -> dict[int, int]:
        """How often each token followed."""
        if self._followers is None:
            self._followers = {}
            for place in self.places:
                self._followers[text[place]] = self._followers.get(text[place], 0) + 1
        return self._followers

    def add(self, place: int, token: int) -> None:
        self.places.append(place)
        if self._followers is not None:
            self._followers[token] = self._followers.get(token, 0) + 1


class SuffixTrie:
    """Contexts of up to `max_length` tokens over the texts that were added."""

    def __init__(self, max_length: int = 8) -> None:
        self.max_length = max_length
        self.text: list[int] = []
        self._roots: dict[int, Context] = {}

    def add(self, tokens: Iterable[int]) -> None:
        """Take in another text."""
        self.text.append(GAP)
        self.extend(tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        """Let the last text grow."""
        text, roots = self.text, self._roots
        before = text[-1] if text else GAP
        place = len(text)
        for token in tokens:
            text.append(token)
            if before != GAP:
                root = roots.get(before)
                if root is None:
                    root = roots[before] = Context(1)
                if root.longer is None and root._followers is None:
                    root.places.append(place)
                else:
                    self._add(root, place, token)
            before = token
            place += 1

    def _add(self, context: Context | None, place: int, token: int) -> None:
        """Enter a place into every context that was told apart already."""
        while context is not None:
            context.add(place, token)
            if context.longer is None:
                return
            before = self.text[place - 1 - context.length] if place > context.length else GAP
            longer = context.longer.get(before)
            if longer is None and before != GAP:
                longer = context.longer[before] = Context(context.length + 1)
            context = longer

    def contexts(self, path: Seq[int]) -> list[Context]:
        """The contexts that `path` ends in, shortest first; each is met at least once."""
        found: list[Context] = []
        context = self._roots.get(path[-1]) if path else None
        while context is not None:
            found.append(context)
            length = context.length
            if length == self.max_length or length == len(path):
                break
            if context.longer is None:
                self._split(context)
            context = context.longer.get(path[-1 - length])  # type: ignore[union-attr]
        return found

    def _split(self, context: Context) -> None:
        longer: dict[int, Context] = {}
        for place in context.places:
            first = place - 1 - context.length
            before = self.text[first] if first >= 0 else GAP
            if before != GAP:
                if before not in longer:
                    longer[before] = Context(context.length + 1)
                longer[before].places.append(place)
        context.longer = longer
