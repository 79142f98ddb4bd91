"""The published copying drafters copy from where they say."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from core.drafters.llma import Llma
from core.drafters.prompt_lookup import PromptLookup
from core.types import DraftTree
from tests.drafters.copying import TOKENS
from tests.drafters.writing import row_of


@given(
    sources=st.lists(st.lists(TOKENS, max_size=15), min_size=1, max_size=3),
    written=st.lists(TOKENS, max_size=10),
    limit=st.integers(0, 25),
)
@settings(deadline=None)
def test_llma_copies_behind_the_first_longest_match_in_the_references(
    sources: list[list[int]], written: list[int], limit: int
) -> None:
    row = row_of([3, 4], sources=sources)
    llma = Llma()
    llma.begin(row)
    row.tokens += written
    (tree,) = llma.propose([row], [limit])
    expected: list[int] = []
    for size in range(min(5, len(written)), 0, -1):
        ends = [
            (text, end)
            for text in sources
            for end in range(size, len(text) + 1)
            if text[end - size : end] == written[-size:]
        ]
        if ends:
            expected = ends[0][0][ends[0][1] :][: min(limit, 19)]
            break
    assert list(tree.tokens) == expected
    assert list(tree.parents) == list(range(-1, len(expected) - 1))


@given(tokens=st.lists(TOKENS, min_size=1, max_size=30), limit=st.integers(0, 15))
def test_prompt_lookup_copies_what_followed_the_first_occurrence(tokens: list[int], limit: int) -> None:
    row = row_of([3])
    row.tokens = tokens
    (tree,) = PromptLookup(max_ngram=2, num_tokens=10).propose([row], [limit])
    expected: list[int] = []
    for size in (2, 1):
        starts = [i for i in range(len(tokens) - size) if tokens[i : i + size] == tokens[-size:]]
        if starts and len(tokens) > size:
            expected = tokens[starts[0] + size :][: min(limit, 10)]
            break
    assert list(tree.tokens) == expected
    assert list(tree.parents) == list(range(-1, len(expected) - 1))
    assert isinstance(tree, DraftTree)
