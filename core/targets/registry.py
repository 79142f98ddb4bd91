"""Which target runs which model."""

from __future__ import annotations

import torch
from torch import nn
from transformers import BartForConditionalGeneration, LlamaForCausalLM, PreTrainedModel

from core.targets import self_check
from core.targets.base import Target, UnsupportedModelError
from core.targets.decoder_only import DecoderOnly
from core.targets.encoder_decoder import EncoderDecoder
from core.targets.lean_bart import LeanBart
from core.targets.lean_llama import LeanLlama
from core.targets.linear import Int8Linear

#: Classes with a forward of our own on the CPU. Subclasses may compute something else.
LEAN: dict[type, type[LeanBart] | type[LeanLlama]] = {
    BartForConditionalGeneration: LeanBart,
    LlamaForCausalLM: LeanLlama,
}
_LEAN_DTYPES = (torch.float64, torch.float32, torch.bfloat16)
#: A lean forward holds the weights a second time, in its own layout; above so many bytes that is not worth it.
_MOST_LEAN_BYTES = 4 << 30


def target_for(model: PreTrainedModel, *, is_int8: bool = False) -> Target:
    """The adapter of the model's family. Raises UnsupportedModelError for what cannot be run exactly, and for
    `is_int8` (weights of 8 bits, lossy) where the family has no such form."""
    lean = _lean_form(model)
    if is_int8:
        if lean is None:
            raise UnsupportedModelError(
                f"{type(model).__name__} on {model.device.type} has no int8 form; "
                "BART and Llama have one on the CPU"
            )
        return lean(model, Int8Linear)
    if lean is not None and model.get_memory_footprint() <= _MOST_LEAN_BYTES:
        return lean(model)
    target = EncoderDecoder(model) if model.config.is_encoder_decoder else DecoderOnly(model)
    if model.config.model_type not in self_check.PROVEN:
        self_check.require_equal(target, model)
    return target


def _lean_form(model: PreTrainedModel) -> type[LeanBart] | type[LeanLlama] | None:
    if (
        model.device.type != "cpu"
        or model.dtype not in _LEAN_DTYPES
        or not all(map(_is_plain, model.modules()))
    ):
        return None
    return LEAN.get(type(model))


def _is_plain(part: nn.Module) -> bool:
    """Whether a module computes what its class in torch or transformers does: no quantised matrix, adapter or hook."""
    kind = type(part)
    is_changed = "forward" in vars(part) or part._forward_hooks or part._forward_pre_hooks
    is_other_matrix = isinstance(part, nn.Linear) and kind is not nn.Linear
    return (
        kind.__module__.startswith(("torch.nn.", "transformers.")) and not is_changed and not is_other_matrix
    )
