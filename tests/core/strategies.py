"""What hypothesis draws from, in several tests of the core."""

from __future__ import annotations

from hypothesis import strategies as st

from core.types import DraftTree
from tests.core.models import FIRST_WORD, VOCAB

WORDS = st.integers(FIRST_WORD, VOCAB - 1)


@st.composite
def trees(draw: st.DrawFn, max_nodes: int = 10, words: st.SearchStrategy[int] = WORDS) -> DraftTree:
    tokens = draw(st.lists(words, max_size=max_nodes))
    parents = [draw(st.integers(-1, i - 1)) for i in range(len(tokens))]
    scores = [draw(st.floats(0, 1)) for _ in tokens]
    return DraftTree(tokens, parents, scores, None, [f"node {i}" for i in range(len(tokens))])


@st.composite
def trees_and_paths(draw: st.DrawFn, max_nodes: int = 10) -> tuple[DraftTree, tuple[int, ...]]:
    """A tree, and the path from its root to some node, or none."""
    tree = draw(trees(max_nodes))
    node = draw(st.integers(-1, len(tree) - 1))
    return tree, path_to(tree, node)


def path_to(tree: DraftTree, node: int) -> tuple[int, ...]:
    """The nodes from the root down to `node`."""
    path: list[int] = []
    while node >= 0:
        path.append(node)
        node = tree.parents[node]
    return tuple(reversed(path))
