"""Prompts with outputs as token ids, and the batches that training makes of them.

Knows ids, padding and both families: an encoder-decoder model reads the prompt and writes the output, a decoder-only
model writes the output behind the prompt. Does not know who wrote an output.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from core.targets.encoder_decoder import decoder_start
from core.targets.limits import context_length

#: What is not learnt from.
IGNORED = -100
#: Widths are rounded up to a multiple, so that kernels meet few shapes.
_ROUND = 8


@dataclass(frozen=True)
class Example:
    """Token ids of a prompt and of what was written for it, the end token included. `learnt[t]` False: output token t
    is read but not learnt from; None: all are learnt. `shown` is read in place of the output, where that differs."""

    prompt: tuple[int, ...]
    output: tuple[int, ...]
    learnt: tuple[bool, ...] | None = None
    shown: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Layout:
    """How a model's batches look: its family, its padding token, its decoder's first tokens, its context."""

    is_encoder_decoder: bool
    pad: int
    start: tuple[int, ...]
    max_length: int

    @classmethod
    def of(cls, model: Any) -> Layout:
        """The layout of a transformers model."""
        config = model.config
        pad = config.get_text_config(decoder=True).pad_token_id
        start = decoder_start(model) if config.is_encoder_decoder else ()
        return cls(bool(config.is_encoder_decoder), pad or 0, start, context_length(config))

    def fits(self, example: Example) -> bool:
        """Whether prompt and output have room in the model's context, and something is to be learnt."""
        own = len(self.start) + len(example.output)
        longest = max(own, len(example.prompt)) if self.is_encoder_decoder else own + len(example.prompt)
        return bool(example.output and example.prompt) and longest <= self.max_length


@dataclass(frozen=True)
class TextBatch:
    """Tensors of one step. `inputs` [B, T] are the decoder's tokens, `labels` [B, T] what follows each (IGNORED where
    nothing is learnt); `written` [B, T] is True where an output token follows; `source` [B, S] is the encoder's."""

    inputs: Tensor
    mask: Tensor
    labels: Tensor
    written: Tensor
    source: Tensor | None = None
    source_mask: Tensor | None = None

    @property
    def tokens(self) -> int:
        """Tokens learnt from."""
        return int((self.labels != IGNORED).sum())

    def to(self, device: torch.device) -> TextBatch:
        """The batch on a device."""
        moved = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{k: v.to(device) for k, v in moved.items() if v is not None})

    def model_inputs(self) -> dict[str, Any]:
        """Keyword arguments of the transformers model."""
        if self.source is None:
            return {"input_ids": self.inputs, "attention_mask": self.mask, "use_cache": False}
        return {
            "input_ids": self.source,
            "attention_mask": self.source_mask,
            "decoder_input_ids": self.inputs,
            "use_cache": False,
        }


def collate(examples: Seq[Example], layout: Layout) -> TextBatch:
    """One batch of all examples, padded on the right."""
    rows, labels, written = [], [], []
    for example in examples:
        before = list(layout.start if layout.is_encoder_decoder else example.prompt)
        learnt = example.learnt or (True,) * len(example.output)
        assert len(learnt) == len(example.output), "a token is learnt or not"
        told = [token if use else IGNORED for token, use in zip(example.output, learnt, strict=True)]
        rows.append([*before, *(example.shown or example.output)[:-1]])
        labels.append([IGNORED] * (len(before) - 1) + told)
        written.append([False] * (len(before) - 1) + [True] * len(example.output))
    inputs = _padded(rows, layout.pad)
    batch = TextBatch(
        inputs,
        _padded([[1] * len(row) for row in rows], 0),
        _padded(labels, IGNORED),
        _padded(written, False).bool(),
    )
    if not layout.is_encoder_decoder:
        return batch
    prompts = [list(example.prompt) for example in examples]
    source_mask = _padded([[1] * len(prompt) for prompt in prompts], 0)
    return replace(batch, source=_padded(prompts, layout.pad), source_mask=source_mask)


def _padded(rows: Seq[Seq[int]], value: int) -> Tensor:
    longest = max(len(row) for row in rows)
    width = -(-longest // _ROUND) * _ROUND
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])


def batches(
    examples: Seq[Example], layout: Layout, batch_tokens: int, shuffle: random.Random | None = None
) -> Iterator[TextBatch]:
    """All examples once, neighbours of like length together, about `batch_tokens` of the longer side in each."""
    order = list(range(len(examples)))
    if shuffle is not None:
        shuffle.shuffle(order)
    order.sort(key=lambda i: _width(examples[i], layout))
    groups: list[list[Example]] = []
    room = 0
    for i in order:
        width = _width(examples[i], layout)
        if not groups or width * (len(groups[-1]) + 1) > room:
            groups.append([])
            room = max(batch_tokens, width)
        groups[-1].append(examples[i])
    if shuffle is not None:
        shuffle.shuffle(groups)
    return (collate(group, layout) for group in groups)


def _width(example: Example, layout: Layout) -> int:
    """The longer side, rounded up."""
    own = len(layout.start) + len(example.output) - 1
    longest = max(own, len(example.prompt)) if layout.is_encoder_decoder else own + len(example.prompt)
    return -(-longest // _ROUND) * _ROUND
