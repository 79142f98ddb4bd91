"""What the lean forwards of the CPU have in common: flat rows, shapes rounded little, matrices of one form.

Does not know model families.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch

from core.packing import Pass
from core.targets.base import Target
from core.targets.flat_rows import FlatRows, flat_bucket
from core.targets.linear import Form


class Lean(Target):
    """A target with a forward of our own over a transformers model's weights; `form` made its matrices."""

    form: Form
    flat_bucket = staticmethod(flat_bucket)

    def query_bucket(self, num_queries: int) -> int:
        step = 1 if num_queries <= 4 else 4 if num_queries <= 64 else 16
        return -(-num_queries // step) * step

    def key_bucket(self, length: int) -> int:
        """Attention takes any length at the same price, so nothing is rounded."""
        return length


def flat_inputs(batch: Pass) -> tuple[FlatRows | None, torch.Tensor, torch.Tensor]:
    """How a pass's rows lie flat, and its tokens and positions [M] so."""
    flat = FlatRows.of(batch.num_queries, batch.tokens.shape[1])
    tokens, positions = batch.tokens.view(-1), batch.positions.view(-1)
    return (
        (flat, tokens, positions) if flat is None else (flat, flat.flatten(tokens), flat.flatten(positions))
    )


def offsets_of(batch: Pass, flat: FlatRows | None) -> Seq[int]:
    """Where each row's queries begin among all of a pass."""
    num_rows, num_queries = batch.tokens.shape
    return range(0, num_rows * num_queries, num_queries) if flat is None else flat.offsets
