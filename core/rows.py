"""From a request to the row that is decoded: texts become tokens, and what cannot fit is refused."""

from __future__ import annotations

import operator
from collections.abc import Sequence as Seq
from typing import Any

from core.targets.base import Target
from core.types import Request, SamplingParams, Sequence


def new_row(id: int, request: Request, params: SamplingParams, target: Target, tokenizer: Any) -> Sequence:
    """A row for the request. Raises ValueError, with the numbers, for one that cannot be read or cannot fit."""
    prompt = _encode(tokenizer, request.prompt, "the prompt", special=True)
    _require_known(prompt, target.prompt_vocab_size)
    tokens = target.start_tokens(prompt)
    room = target.max_length - len(tokens)
    if target.is_encoder_decoder and len(prompt) > target.max_length:
        raise ValueError(
            f"the prompt has {len(prompt)} tokens, but the encoder has positions for {target.max_length}; "
            "split the text"
        )
    if room < 1:
        raise ValueError(
            f"the prompt has {len(tokens)} tokens, but the model's context holds {target.max_length} "
            "with at least one to write; shorten the prompt"
        )
    return Sequence(
        id=id,
        request=request,
        params=params,
        prompt_ids=prompt,
        tokens=tokens,
        source_ids=[
            _known(_encode(tokenizer, source, f"source {i}"), target.vocab_size)
            for i, source in enumerate(request.sources)
        ],
        prediction_ids=(
            None
            if request.prediction is None
            else _known(_encode(tokenizer, request.prediction, "the prediction"), target.vocab_size)
        ),
        max_tokens=min(params.max_new_tokens, room),
    )


def _encode(tokenizer: Any, text: str | Seq[int], name: str, special: bool = False) -> list[int]:
    if isinstance(text, str):
        ids: list[int] = tokenizer.encode(text, add_special_tokens=special)
        return ids
    try:
        return [operator.index(token) for token in text]
    except TypeError as error:
        raise ValueError(f"{name} must be text or a flat list of token ids, not {text!r:.80}") from error


def _require_known(prompt: Seq[int], vocab_size: int) -> None:
    for place, token in enumerate(prompt):
        if not 0 <= token < vocab_size:
            raise ValueError(
                f"token {place} of the prompt has id {token}, but the model knows ids 0 to {vocab_size - 1}; "
                "use its own tokenizer"
            )


def _known(ids: list[int], vocab_size: int) -> list[int]:
    """What the model could write: it cannot copy a token that it does not know."""
    return [token for token in ids if 0 <= token < vocab_size]
