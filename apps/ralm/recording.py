"""What the passes of a request said, found again along the tokens that were chosen. Knows draft trees, no models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import torch

from core.types import DraftTree

Kept = TypeVar("Kept")


class PathRecorder(Generic[Kept]):
    """Keeps one thing for every node of every pass."""

    def __init__(self) -> None:
        self._passes: list[tuple[int, DraftTree, Sequence[Kept]]] = []

    def record(self, num_prefix: int, tree: DraftTree, kept: Sequence[Kept]) -> None:
        """`kept[0]` is what was said behind the first `num_prefix` tokens, `kept[1 + i]` behind node i."""
        self._passes.append((num_prefix, tree, kept))

    def along(self, tokens: Sequence[int], num_prompt: int) -> list[Kept]:
        """What was said before each of `tokens` [prompt and text] behind the prompt."""
        said: dict[int, Kept] = {}
        for place, tree, kept in self._passes:
            node = -1
            while place < len(tokens):
                said[place] = kept[1 + node]
                children = (i for i in range(node + 1, len(tree)) if tree.parents[i] == node)
                node = next((i for i in children if tree.tokens[i] == tokens[place]), -1)
                if node < 0:
                    break
                place += 1
        return [said[place] for place in range(num_prompt, len(tokens))]


class ConfidenceTransform:
    """A `core.types.LogitsTransform` that changes nothing and remembers how sure the model was."""

    needs_hidden = False

    def __init__(self) -> None:
        self._recorder: PathRecorder[torch.Tensor] = PathRecorder()

    def apply(
        self, logits: torch.Tensor, prefix: Sequence[int], tree: DraftTree, hidden: torch.Tensor | None
    ) -> torch.Tensor:
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        self._recorder.record(len(prefix), tree, wide.log_softmax(-1).unbind(0))
        return logits

    def probabilities(self, tokens: Sequence[int], num_prompt: int) -> list[float]:
        """The model's own probability, at temperature 1, of each of `tokens` behind the prompt."""
        said = self._recorder.along(tokens, num_prompt)
        return [float(row[token].exp()) for row, token in zip(said, tokens[num_prompt:], strict=True)]
