"""Which target runs which model."""

from __future__ import annotations

from transformers import PreTrainedModel

from core.targets import lean_bart, self_check
from core.targets.base import Target
from core.targets.decoder_only import DecoderOnly
from core.targets.encoder_decoder import EncoderDecoder


def target_for(model: PreTrainedModel) -> Target:
    """The adapter of the model's family. Raises UnsupportedModelError for what cannot be run exactly."""
    if lean_bart.fits(model):
        return lean_bart.LeanBart(model)
    target = EncoderDecoder(model) if model.config.is_encoder_decoder else DecoderOnly(model)
    if model.config.model_type not in self_check.PROVEN:
        self_check.require_equal(target, model)
    return target
