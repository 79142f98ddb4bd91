"""Which target runs which model."""

from __future__ import annotations

from transformers import PreTrainedModel

from core.targets import lean_bart
from core.targets.base import Target
from core.targets.decoder_only import DecoderOnly
from core.targets.encoder_decoder import EncoderDecoder


def target_for(model: PreTrainedModel) -> Target:
    """The adapter of the model's family. Raises UnsupportedModelError for what cannot be run exactly."""
    if lean_bart.fits(model):
        return lean_bart.LeanBart(model)
    if model.config.is_encoder_decoder:
        return EncoderDecoder(model)
    return DecoderOnly(model)
