"""Several draft models in one tree (SpecInfer's merge-based speculation, Miao et al. 2305.09781)."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

from core.drafters.draft_model import DraftModel
from core.drafters.merged import Key, Merged, Origin
from core.drafters.tree_builder import TreeBuilder
from core.targets.base import Target
from core.types import DraftTree


class SpecInfer(Merged):
    """`models` are draft models, or their folders or ids, also as one text joined by ","; `options` are those of
    `DraftModel`. Memory: that of all of them.

    Under the rule `speculative_sampling` a model's draws that another one before it has drawn too are left out; what
    is left was drawn without replacement, as the rule expects. Raises ValueError for no model.
    """

    def __init__(self, target: Target, models: str | Seq[str | Path | Target], **options: Any) -> None:
        listed = models.split(",") if isinstance(models, str) else list(models)
        if not listed:
            raise ValueError("spec_infer needs at least one draft model; give models='PATH,PATH'")
        super().__init__([DraftModel(target, model, **options) for model in listed], is_gated=False)

    def read_verification(self, rule: str) -> None:
        for part in self.parts:
            part.read_verification(rule)

    def _grow(self, trees: list[tuple[int, DraftTree]], limit: int) -> DraftTree:
        if any(tree.probs is not None for _, tree in trees):
            return _union(trees, limit)
        return super()._grow(trees, limit)


def _union(trees: list[tuple[int, DraftTree]], limit: int) -> DraftTree:
    """Drawn nodes of all trees, those of earlier trees first among siblings; each with what it was drawn from.

    Scores hang on no token, so that which nodes are verified does not either.
    """
    union = DrawnUnion()
    for part, tree in trees:
        union.insert(part, tree)
    return union.build(limit)


class DrawnUnion(TreeBuilder):
    """A tree of drawn nodes; siblings score no more than those before them, so that they keep their order."""

    def __init__(self) -> None:
        super().__init__()
        self._drawn_from: list[Any] = []
        self._youngest: dict[int, float] = {}

    def insert(self, part: int, tree: DraftTree) -> None:
        assert tree.scores is not None
        assert tree.origins is not None
        places = {-1: -1}
        for i, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
            above = places[parent]
            known = self._places.get((above, token))
            if known is None:
                score = min(tree.scores[i], self._youngest.get(above, 1.0))
                known = self.add(above, token, score, Origin(Key(part, 0, 1, 0), {}))
                self._youngest[above] = self._scores[known]
                assert tree.probs is not None
                self._drawn_from.append(tree.probs[i])
            places[i] = known
            self._origins[known].claims[part] = tree.origins[i]

    def build(self, limit: int) -> DraftTree:
        order = sorted(range(len(self._tokens)), key=lambda node: -self._scores[node])[:limit]
        built = super().build(limit)
        return DraftTree(
            built.tokens,
            built.parents,
            built.scores,
            [self._drawn_from[node] for node in order],
            built.origins,
        )
