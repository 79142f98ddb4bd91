"""From a request to the row that is decoded: texts become tokens, and what cannot fit is refused."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

from core.targets.base import Target
from core.types import Request, SamplingParams, Sequence


def new_row(id: int, request: Request, params: SamplingParams, target: Target, tokenizer: Any) -> Sequence:
    """A row for the request. Raises ValueError, with the numbers, for one that cannot fit."""
    prompt = _encode(tokenizer, request.prompt, special=True)
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
        source_ids=[_encode(tokenizer, source) for source in request.sources],
        prediction_ids=None if request.prediction is None else _encode(tokenizer, request.prediction),
        max_tokens=min(params.max_new_tokens, room),
    )


def _encode(tokenizer: Any, text: str | Seq[int], special: bool = False) -> list[int]:
    if not isinstance(text, str):
        return list(text)
    ids: list[int] = tokenizer.encode(text, add_special_tokens=special)
    return ids
