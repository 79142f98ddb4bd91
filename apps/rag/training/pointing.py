"""Supervision of two heads: which sentence is quoted, and which of its tokens comes next.

An answer is a quotation, so the rows know where every token of it stands in the prompt. Two heads of the model are told
so directly: their attention is a distribution over places, and its cross-entropy is learnt beside that of the tokens.
Training time only; the model stays a stock one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from .batches import Batch
from .first_weights import SENTENCE_HEAD, TOKEN_HEAD


@contextmanager
def heard(model: Any, layers: tuple[int, ...]) -> Iterator[dict[int, Tensor]]:
    """What goes into the attention of some layers `[B, L, W]`, by layer, while the model runs inside."""
    inputs: dict[int, Tensor] = {}

    def listener(layer: int) -> Any:
        def hear(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            inputs[layer] = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]

        return hear

    hooks = [
        model.model.layers[k].self_attn.register_forward_pre_hook(listener(k), with_kwargs=True)
        for k in layers
    ]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()


def attention(
    model: Any, where: tuple[int, int], hidden: Tensor, batch: Batch, rows: Tensor, places: Tensor
) -> Tensor:
    """Logarithms of one head's attention `[N, L]` from places `[N]` of rows `[N]` of a batch; `hidden` as `heard`.

    The rows ascend.
    """
    layer, head = where
    module = model.model.layers[layer].self_attn
    part = slice(head * module.head_dim, (head + 1) * module.head_dim)
    cos, sin = model.model.rotary_emb(hidden, batch.positions)
    keys = (hidden @ module.k_proj.weight[part].T)[:, None]
    queries = (hidden[rows, places] @ module.q_proj.weight[part].T)[None, None]
    keys, _ = apply_rotary_pos_emb(keys, keys, cos, sin)
    queries, _ = apply_rotary_pos_emb(queries, queries, cos[rows, places][None], sin[rows, places][None])
    # Row by row: a gathered copy of the keys for every place would be a slow one to go back through.
    counts = torch.bincount(rows, minlength=len(hidden)).tolist()
    parts = [q @ k.T for q, k in zip(queries[0, 0].split(counts), keys[:, 0], strict=True)]
    scores = torch.cat(parts) * module.scaling
    return scores.float().masked_fill(~batch.sees[rows, 0, places], -torch.inf).log_softmax(-1)


@dataclass(frozen=True)
class Pointed:
    """Every quoted token of a batch `[N]`: row, the place before it, its own place in the prompt, its sentence."""

    rows: Tensor
    places: Tensor
    tokens: Tensor
    begins: Tensor
    ends: Tensor

    @classmethod
    def of(cls, pointers: Tensor) -> Pointed:
        """Those of pointers `[B, P, 4]` (place, start, count, branch)."""
        counts = pointers[..., 2].flatten()
        rows = torch.arange(len(pointers), device=pointers.device).repeat_interleave(pointers.shape[1])
        which = torch.arange(len(counts), device=pointers.device).repeat_interleave(counts)
        offset = torch.arange(len(which), device=pointers.device) - (counts.cumsum(0) - counts)[which]
        place, start = pointers[..., 0].flatten()[which], pointers[..., 1].flatten()[which]
        return cls(rows[which], place + offset, start + offset, start, start + counts[which])

    def where(self, chosen: Tensor) -> Pointed:
        """Some of the tokens, by a mask `[N]`."""
        return Pointed(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @property
    def is_choice(self) -> Tensor:
        """Where the sentence is chosen: before its first token `[N]`."""
        return self.tokens == self.begins


def pointing_loss(model: Any, inputs: dict[int, Tensor], batch: Batch) -> Tensor:
    """Cross-entropy of both heads: of choosing sentences, and half that of following what was chosen.

    The first token of a sentence comes with the choice; only behind it is there something to follow.
    """
    found = Pointed.of(batch.pointers)
    if not len(found.rows):
        return batch.pointers.new_zeros((), dtype=torch.float32)
    first, later = found.where(found.is_choice), found.where(~found.is_choice)
    sentence = attention(model, SENTENCE_HEAD, inputs[SENTENCE_HEAD[0]], batch, first.rows, first.places)
    positions = torch.arange(sentence.shape[1], device=sentence.device)
    is_quoted = (positions >= first.begins[:, None]) & (positions < first.ends[:, None])
    choice = -sentence.masked_fill(~is_quoted, -torch.inf).logsumexp(-1)
    token = attention(model, TOKEN_HEAD, inputs[TOKEN_HEAD[0]], batch, later.rows, later.places)
    followed = -token.gather(1, later.tokens[:, None])[:, 0]
    return choice.sum() / max(1, len(choice)) + followed.sum() / max(1, len(followed)) / 2
