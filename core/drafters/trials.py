"""Which guesses of a tree were really tried: those whose parent was accepted.

Knows trees and verdicts. Does not know what a drafter wrote into a node's origin.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from typing import Any

from core.types import DraftTree, Verdict


def tried(trees: Seq[DraftTree], verdicts: Seq[Verdict]) -> Iterator[tuple[Any, bool]]:
    """Origin of every node whose parent was accepted, and whether the node was. Nodes of other drafters, which have
    no origin, are left out."""
    for tree, verdict in zip(trees, verdicts, strict=True):
        if tree.origins is None:
            continue
        accepted = set(verdict.path)
        reached = accepted | {-1}
        for node, parent in enumerate(tree.parents):
            if parent in reached and tree.origins[node] is not None:
                yield tree.origins[node], node in accepted
