"""A transform that decides what is written, so that tests can choose the text."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch

from core.types import DraftTree
from tests.core.models import EOS


class Dictation:
    """The model writes `script`, then the end token, whatever it would have liked to write."""

    needs_hidden = False

    def __init__(self, script: Seq[int], num_prompt: int) -> None:
        self._script = [*script, EOS]
        self._num_prompt = num_prompt

    def apply(
        self, logits: torch.Tensor, prefix: Seq[int], tree: DraftTree, hidden: torch.Tensor | None
    ) -> torch.Tensor:
        first = len(prefix) - self._num_prompt
        places = [first, *(first + depth for depth in tree.depths())]
        said = torch.tensor([self._script[min(place, len(self._script) - 1)] for place in places])
        return logits.scatter(1, said[:, None], 1e4)


class Failing:
    """A transform that raises when the text has so many tokens."""

    needs_hidden = False

    def __init__(self, length: int) -> None:
        self._length = length

    def apply(
        self, logits: torch.Tensor, prefix: Seq[int], tree: DraftTree, hidden: torch.Tensor | None
    ) -> torch.Tensor:
        if len(prefix) >= self._length:
            raise RuntimeError("the transform broke")
        return logits
