"""Speculative sampling with an independent, smaller model (Leviathan et al. 2211.17192; Chen et al. 2302.01318)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core import loading
from core.drafters.draft_slots import OwnSlots
from core.drafters.model_drafting import ModelDrafter
from core.targets.base import Target
from core.targets.runners import StaticRunner


class DraftModel(ModelDrafter):
    """`model` is the draft model: a folder or hub id, or a target; of the same kind as the target and with the same
    tokens. It runs on the target's device, in its number type unless `dtype` says otherwise.

    `options` are those of `TreeDrafter`. Memory: the model, and its cache for the rows that run and `max_parked`
    others. Raises ValueError for a model of another kind, and for another tokenizer.
    """

    def __init__(
        self,
        target: Target,
        model: str | Path | Target,
        *,
        dtype: str | None = None,
        max_parked: int | None = None,
        **options: Any,
    ) -> None:
        draft, self._tokenizer = load_draft(target, model, dtype)
        self._name = model if isinstance(model, str | Path) else type(draft).__name__
        super().__init__(target, OwnSlots(draft, max_parked), **options)

    def read_vocabulary(self, tokenizer: Any) -> None:
        if self._tokenizer is not None and not same_tokens(self._tokenizer, tokenizer):
            raise ValueError(
                f"the draft model {str(self._name)!r} has another vocabulary than the target; "
                "use the drafter 'text_draft_model', which translates by way of the text"
            )


def load_draft(target: Target, model: str | Path | Target, dtype: str | None) -> tuple[Target, Any]:
    """A draft model for a target, and its tokenizer if it was loaded."""
    tokenizer = None
    if not isinstance(model, Target):
        if dtype is None:
            dtype = next(name for name, kind in loading.DTYPES.items() if kind is target.dtype)
        has_graphs = isinstance(target.runner, StaticRunner)
        try:
            model, tokenizer = loading.load(model, str(target.device), dtype, cuda_graphs=has_graphs)
        except OSError as error:  # transformers says so of hub ids that do not exist or cannot be reached
            first = str(error).strip().split("\n")[0]
            raise ValueError(
                f"the draft model {str(model)!r} cannot be loaded: {first} Give a folder, or a hub id with a network."
            ) from error
    if model.is_encoder_decoder != target.is_encoder_decoder:
        kinds = ("a decoder-only model", "an encoder-decoder model")
        raise ValueError(
            f"the draft model is {kinds[model.is_encoder_decoder]}, the target {kinds[target.is_encoder_decoder]}; "
            "choose one of the same kind"
        )
    return model, tokenizer


def same_tokens(first: Any, second: Any) -> bool:
    """Whether the ids that both tokenizers have mean the same; one may have more."""
    known, other = first.get_vocab(), second.get_vocab()
    shared = known.keys() & other.keys()
    least = min(len(known), len(other))
    return len(shared) >= 0.98 * least and all(known[piece] == other[piece] for piece in shared)
