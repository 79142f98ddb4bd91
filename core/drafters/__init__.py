"""Drafters by name. To add one: a file in this folder and a line in `FACTORIES`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.drafters.adaptive_trigram import AdaptiveTrigram
from core.drafters.base import Drafter
from core.drafters.cascade import Cascade
from core.drafters.copy import Copy
from core.drafters.datastore import Datastore
from core.drafters.draft_model import DraftModel
from core.drafters.eagle import Eagle
from core.drafters.early_exit import EarlyExit
from core.drafters.heads import Heads
from core.drafters.jacobi import Jacobi
from core.drafters.layer_skip import LayerSkip
from core.drafters.llma import Llma
from core.drafters.lookahead import Lookahead
from core.drafters.merged import Merged
from core.drafters.prompt_lookup import PromptLookup
from core.drafters.sad import Sad
from core.drafters.sam import Sam
from core.drafters.spec_dec import SpecDec
from core.drafters.spec_infer import SpecInfer
from core.drafters.suffix_decoding import SuffixDecoding
from core.drafters.text_draft_model import TextDraftModel
from core.drafters.token_recycling import TokenRecycling
from core.targets.base import Target


def _merged(target: Target, parts: str = "copy+adaptive_trigram", **options: Any) -> Drafter:
    """Parts are names joined by "+"; an option that is called like a part holds that part's own options."""
    made = [create(part, target, **options.pop(part, {})) for part in parts.split("+")]
    return Merged(made, **options)


#: (target, **options) -> a drafter with state of its own; options are the keyword arguments of its class.
FACTORIES: dict[str, Callable[..., Drafter]] = {
    "none": lambda target: Drafter(),
    "adaptive_trigram": lambda target, **options: AdaptiveTrigram(
        target.vocab_size, eos_token_ids=target.eos_token_ids, **options
    ),
    "cascade": Cascade,
    "copy": lambda target, **options: Copy(
        is_aligned=target.is_encoder_decoder, eos_token_ids=target.eos_token_ids, **options
    ),
    "datastore": lambda target, **options: Datastore(target.vocab_size, **options),
    "draft_model": DraftModel,
    "eagle": Eagle,
    "early_exit": EarlyExit,
    "heads": Heads,
    "jacobi": lambda target, **options: Jacobi(**options),
    "layer_skip": LayerSkip,
    "llma": lambda target, **options: Llma(**options),
    "lookahead": lambda target, **options: Lookahead(**options),
    "merged": _merged,
    "prompt_lookup": lambda target, **options: PromptLookup(**options),
    "sad": lambda target, **options: Sad(
        is_aligned=target.is_encoder_decoder, eos_token_ids=target.eos_token_ids, **options
    ),
    "sam": lambda target, **options: Sam(target.vocab_size, **options),
    "spec_dec": SpecDec,
    "spec_infer": SpecInfer,
    "suffix_decoding": lambda target, **options: SuffixDecoding(
        eos_token_ids=target.eos_token_ids, **options
    ),
    "text_draft_model": TextDraftModel,
    "token_recycling": lambda target, **options: TokenRecycling(target.vocab_size, **options),
}

#: The option that a drafter cannot be made without: models or trained parts.
NEED_OPTIONS = {
    "cascade": "model",
    "draft_model": "model",
    "eagle": "model",
    "heads": "model",
    "spec_dec": "model",
    "spec_infer": "models",
    "text_draft_model": "model",
}


class MissingOptionError(ValueError):
    """A drafter was asked for without the option that it cannot be made without."""


class WrongOptionError(ValueError, TypeError):
    """A drafter was given an option that it does not have, or one of the wrong kind."""


def names() -> list[str]:
    """Every drafter by name."""
    return sorted(FACTORIES)


def ready_names() -> list[str]:
    """Those that need nothing but a target: no draft model, no trained heads."""
    return [name for name in names() if name not in NEED_OPTIONS]


def create(name: str, target: Target, **options: Any) -> Drafter:
    """The drafter of that name, with state of its own; names joined by "+" ("copy+suffix_decoding") are merged, and
    options of a part are then given under its name (`draft_model={"model": PATH}`).

    Raises ValueError for an unknown name, MissingOptionError for an option that the drafter cannot be made without, and
    WrongOptionError, naming it, for one that it does not have.
    """
    if "+" in name:
        return _merged(target, name, **options)
    if name not in FACTORIES:
        raise ValueError(
            f"unknown drafter {name!r}; choose one of {', '.join(names())}, or several joined by +"
        )
    needed = NEED_OPTIONS.get(name)
    if needed is not None and needed not in options:
        raise MissingOptionError(
            f"drafter {name!r} needs the option {needed!r}, a folder or hub id; give it in drafter_options, "
            f"to a command as --drafter-option {needed}=FOLDER"
        )
    if not options:
        return FACTORIES[name](target)
    try:
        return FACTORIES[name](target, **options)
    except TypeError as error:
        raise WrongOptionError(
            f"drafter {name!r} cannot be made with {', '.join(f'{key}={value!r}' for key, value in options.items())}: "
            f"{error}; leave out the option that it does not have"
        ) from error
