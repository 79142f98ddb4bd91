"""Texts for copying drafters, and how many passes a drafter takes to write them."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from hypothesis import strategies as st

from core.drafters.copy import Copy
from core.types import DraftTree, Sequence, Verdict
from core.verification import walk
from tests.drafters.writing import NO_OUTPUT

#: Few, so that they come again and again.
TOKENS = st.integers(3, 9)


def passes(copy: Copy, row: Sequence, output: Seq[int], limit: int = 64) -> int:
    """How many passes the loop would take to write `output`, by the rule of the loop and without a model."""
    copy.begin(row)
    count = 0
    while len(row.output_ids) < len(output):
        (tree,) = copy.propose([row], [limit])
        tree.check()
        assert len(tree) <= limit
        assert list(tree.scores) == sorted(tree.scores, reverse=True)
        assert all(0 < score <= 1 for score in tree.scores)
        edges = list(zip(tree.parents, tree.tokens, strict=True))
        assert len(set(edges)) == len(edges), "two siblings carry the same token"
        verdict = write(row, tree, output)
        copy.observe([row], [tree], [verdict], NO_OUTPUT)
        count += 1
    row.finish_reason = "stop"
    copy.end(row)
    return count


def write(row: Sequence, tree: DraftTree, output: Seq[int]) -> Verdict:
    """One pass of the loop: what of the tree is `output`, and the token behind it, are written."""
    rest = [*output[len(row.output_ids) :], *[-1] * (2 + len(tree))]
    verdict = walk(tree, [rest[0], *(rest[depth] for depth in tree.depths())])
    written = [*(tree.tokens[node] for node in verdict.path), verdict.bonus]
    row.tokens += written[: len(output) - len(row.output_ids)]
    return verdict
