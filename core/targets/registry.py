"""Which target runs which model."""

from __future__ import annotations

from transformers import PreTrainedModel

from core.targets import lean_bart, self_check
from core.targets.base import Target, UnsupportedModelError
from core.targets.decoder_only import DecoderOnly
from core.targets.encoder_decoder import EncoderDecoder
from core.targets.linear import Int8Linear


def target_for(model: PreTrainedModel, *, is_int8: bool = False) -> Target:
    """The adapter of the model's family. Raises UnsupportedModelError for what cannot be run exactly, and for
    `is_int8` (weights of 8 bits, lossy) where the family has no such form."""
    if is_int8:
        if not lean_bart.fits(model):
            raise UnsupportedModelError(
                f"{type(model).__name__} on {model.device.type} has no int8 form; BART on the CPU has one"
            )
        return lean_bart.LeanBart(model, Int8Linear)
    if lean_bart.fits(model):
        return lean_bart.LeanBart(model)
    target = EncoderDecoder(model) if model.config.is_encoder_decoder else DecoderOnly(model)
    if model.config.model_type not in self_check.PROVEN:
        self_check.require_equal(target, model)
    return target
