"""A draft model cut out of its target: some of its layers.

Knows BART-like encoder-decoder models and Llama-like decoder-only ones by the names of their parts. A narrower BART
makes `narrowing`.
"""

from __future__ import annotations

import copy
from typing import Any

from torch import nn


def cut_layers(model: Any, encoder_layers: int = 0, decoder_layers: int = 1) -> Any:
    """A copy with so many evenly spread layers of each stack, the last among them; all widths kept."""
    short = copy.deepcopy(model)
    config = short.config
    if config.is_encoder_decoder:
        _keep_layers(short.get_encoder(), encoder_layers)
        _keep_layers(short.get_decoder(), decoder_layers)
        config.encoder_layers, config.decoder_layers = encoder_layers, decoder_layers
        config.num_hidden_layers = encoder_layers
    else:
        _keep_layers(short.base_model, decoder_layers)
        text = config.get_text_config(decoder=True)
        if getattr(text, "layer_types", None):
            text.layer_types = [text.layer_types[i] for i in _spread(text.num_hidden_layers, decoder_layers)]
        text.num_hidden_layers = decoder_layers
    return short


def _keep_layers(stack: Any, count: int) -> None:
    if not hasattr(stack, "layers"):
        raise ValueError(
            f"{type(stack).__name__} keeps its layers elsewhere; models like BART and Llama can be cut"
        )
    if not 1 <= count <= len(stack.layers):
        raise ValueError(
            f"{count} layers cannot be kept of {len(stack.layers)}; give 1 to {len(stack.layers)}"
        )
    stack.layers = nn.ModuleList([stack.layers[i] for i in _spread(len(stack.layers), count)])
    for place, layer in enumerate(stack.layers):
        for part in layer.modules():
            # Where an attention finds its part of the cache.
            if getattr(part, "layer_idx", None) is not None:
                part.layer_idx = place


def _spread(have: int, keep: int) -> list[int]:
    """`keep` of `have` places: the first for one that is fed by embeddings, the last, and others between."""
    if keep == 1:
        return [have - 1]
    return [round(i * (have - 1) / (keep - 1)) for i in range(keep)]
