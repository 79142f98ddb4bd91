"""How often each continuation followed each stretch of text: a suffix tree with counts.

Knows token sequences. Does not know rows or trees of drafts.

A stretch that occurred once is a leaf that points into its text, and is unfolded when it comes a second time; so the
tree holds little more than one node for each token that was read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Seq
from typing import NamedTuple


class Node:
    """A stretch of tokens that occurred `count` times. While `children` is None it occurred once (or is as deep as
    the tree goes), and what followed is read from `text[position]` on."""

    __slots__ = ("children", "count", "position", "text")

    def __init__(self, count: int, text: list[int], position: int) -> None:
        self.count = count
        self.text = text
        self.position = position
        self.children: dict[int, Node] | None = None


class Place(NamedTuple):
    """A stretch of `length` tokens in the tree: `offset` tokens behind `node` in its text."""

    node: Node
    offset: int
    length: int


class Text:
    """A text that is being read: its tokens, and the nodes of its suffixes that occurred before, longest first."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.suffixes: list[tuple[Node, int]] = []


class SuffixStatistics:
    """Counts of all stretches of at most `max_length` tokens. Memory: some 400 bytes for each token read."""

    def __init__(self, max_length: int = 24) -> None:
        if max_length < 1:
            raise ValueError(f"{max_length=} must be at least 1")
        self.max_length = max_length
        self.num_tokens = 0
        self._root = Node(0, [], 0)
        self._root.children = {}
        self._texts: deque[Text] = deque()

    def read(self, tokens: Seq[int]) -> None:
        """Count a whole text."""
        text = Text()
        self.extend(text, tokens)
        text.suffixes.clear()
        self._texts.append(text)

    def extend(self, text: Text, tokens: Seq[int]) -> None:
        """Count further tokens of a text."""
        for token in tokens:
            text.tokens.append(token)
            longer = []
            for node, length in [*text.suffixes, (self._root, 0)]:
                child = self._step(node, length + 1, token, text.tokens)
                if child is not None and length + 1 < self.max_length:
                    longer.append((child, length + 1))
            text.suffixes = longer
        self.num_tokens += len(tokens)

    def forget_oldest(self) -> None:
        """Take the text that was read first out of the counts."""
        tokens = self._texts.popleft().tokens
        for start in range(len(tokens)):
            node = self._root
            for token in tokens[start : start + self.max_length]:
                if node.children is None:
                    break
                child = node.children[token]
                child.count -= 1
                if child.count == 0:
                    del node.children[token]
                    break
                node = child
        self.num_tokens -= len(tokens)

    def start(self) -> Place:
        """The empty stretch."""
        return Place(self._root, 0, 0)

    def advance(self, place: Place, token: int) -> Place | None:
        """The stretch with one token more, if it occurred."""
        node, offset = _unfolded(place)
        if node.children is not None:
            child = node.children.get(token)
            return None if child is None else Place(child, 0, place.length + 1)
        where = node.position + offset
        if where < len(node.text) and node.text[where] == token:
            return Place(node, offset + 1, place.length + 1)
        return None

    def continuations(self, place: Place) -> list[tuple[int, int, int, Place]]:
        """What followed a stretch: token, how often, how often anything followed, and the longer stretch."""
        node, offset = _unfolded(place)
        length = place.length + 1
        if node.children is not None:
            total = sum(child.count for child in node.children.values())
            return [(t, child.count, total, Place(child, 0, length)) for t, child in node.children.items()]
        where = node.position + offset
        if where < len(node.text):
            return [(node.text[where], 1, 1, Place(node, offset + 1, length))]
        return []

    def _step(self, node: Node, length: int, token: int, text: list[int]) -> Node | None:
        """Count `token`, the last of `text`, behind a node; the child, if it occurred there before."""
        assert node.children is not None
        child = node.children.get(token)
        if child is None:
            node.children[token] = Node(1, text, len(text))
            return None
        child.count += 1
        if child.children is None and length < self.max_length:
            child.children = {}
            if child.position < len(child.text):
                following = child.text[child.position]
                child.children[following] = Node(1, child.text, child.position + 1)
        return child


def _unfolded(place: Place) -> tuple[Node, int]:
    """Node and offset of a place, whose leaf may have been unfolded since."""
    node, offset = place.node, place.offset
    while offset and node.children is not None:
        child = node.children.get(node.text[node.position])
        if child is None:  # forgotten since
            break
        node, offset = child, offset - 1
    return node, offset
