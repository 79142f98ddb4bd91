"""A target with layers left out, over the very same weights and cache.

Knows how transformers' models hold their layers. Does not know drafting.

What a layer has in the cache for the tokens so far is its own, whichever layers stood before it: a pass that leaves
layers out goes on from there, and what it writes lies behind the committed entries, where the next pass of the whole
model overwrites it. So no token is read twice and there is nothing to keep in step (self-speculative decoding, Zhang
et al. 2309.08168).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence as Seq
from typing import Any

import torch
from torch import nn

from core.cache import RaggedCache
from core.drafters.draft_slots import Place
from core.targets.base import Target
from core.targets.cuda_graphs import use_cuda_graphs
from core.targets.encoder_decoder import EncoderDecoder
from core.targets.lean import Lean
from core.targets.runners import StaticRunner
from core.types import DraftTree, Sequence


class SharedLayers(RaggedCache):
    """Some layers of another cache, by its own numbers."""

    def __init__(self, whole: RaggedCache, kept: Seq[int]) -> None:
        self._whole = whole
        self._kept = list(kept)

    @property
    def data(self) -> torch.Tensor:  # type: ignore[override]
        """All layers of the other cache: what tells whether it has moved, and its sizes."""
        return self._whole.data

    @property
    def num_layers(self) -> int:
        return len(self._kept)

    @property
    def bytes_per_entry(self) -> int:
        return self._whole.bytes_per_entry

    def reserve(self, num_slots: int, capacity: int) -> bool:
        return self._whole.reserve(num_slots, capacity)

    def write(
        self, layer: int, rows: slice, starts: torch.Tensor | int, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        self._whole.write(self._kept[layer], rows, starts, keys, values)

    def view(self, layer: int, rows: slice, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._whole.view(self._kept[layer], rows, length)

    def layers(self, rows: slice, length: int | None = None) -> Seq[torch.Tensor]:
        every = self._whole.layers(rows, length)
        return [every[layer] for layer in self._kept]


class TargetSlots:
    """The rows of the batch where they are: in the target's own cache, of which `part` uses some layers."""

    def __init__(self, part: Target) -> None:
        self._part = part

    @property
    def target(self) -> Target:
        return self._part

    def begin(self, row: Sequence) -> None:
        """The target has read it."""

    def places(self, rows: Seq[Sequence]) -> list[Place]:
        return [Place(row, row.cache_len, row.tokens[-1:]) for row in rows]

    def wrote(self, place: Place, tree: DraftTree) -> None:
        """The target's next pass writes over it."""

    def settle(self, rows: Seq[Sequence]) -> None:
        """The target's commit has done so."""

    def end(self, row: Sequence) -> None:
        """The target's row leaves."""


def num_layers(target: Target) -> int:
    """Of a target's decoder."""
    return len(_layers(_decoder(_model(target))))


def with_layers(target: Target, kept: Seq[int]) -> Target:
    """The target with only the layers `kept` of its decoder. Its rows are the target's, and it commits nothing.

    Weights are shared, except where the target's class lays them out anew (`Lean`). Raises ValueError
    for layers that the model does not have or cannot do without.
    """
    total = num_layers(target)
    if not kept or sorted(set(kept)) != list(kept) or not 0 <= kept[0] <= kept[-1] < total:
        raise ValueError(
            f"kept layers {list(kept)} must be at least one of 0..{total - 1}, in order, each once"
        )
    thinned = _thinned(_model(target), kept)
    form = [target.form] if isinstance(target, Lean) else []
    part: Target = type(target)(thinned, *form)  # type: ignore[call-arg]
    part.cache = SharedLayers(target.cache, kept)
    if isinstance(target, EncoderDecoder):
        assert isinstance(part, EncoderDecoder)
        part.cross_cache = SharedLayers(target.cross_cache, kept)
        part.source_lengths = target.source_lengths
    if target.device.type == "cuda" and isinstance(target.runner, StaticRunner):
        use_cuda_graphs(part)
    return part


def _model(target: Target) -> Any:
    return target.model  # type: ignore[attr-defined]


def _decoder(model: Any) -> Any:
    """The stack of layers that writes: decoder-only models call it by several names."""
    return model.get_decoder() if hasattr(model, "get_decoder") else model.base_model


def _layers(decoder: Any) -> nn.ModuleList:
    for name in ("layers", "h", "block"):
        found = getattr(decoder, name, None)
        if isinstance(found, nn.ModuleList):
            return found
    raise ValueError(
        f"cannot find the layers of {type(decoder).__name__}; leave layer_skip and early_exit aside"
    )


def _thinned(model: Any, kept: Seq[int]) -> Any:
    """A copy of the model's modules, not of its weights, with fewer layers in the decoder."""
    weights = [*model.parameters(), *model.buffers()]
    made = copy.deepcopy(model, {id(weight): weight for weight in weights})
    layers = _layers(_decoder(made))
    if kept[0] != 0 and any(
        getattr(part, "has_relative_attention_bias", False) for part in layers[0].modules()
    ):
        raise ValueError(
            f"{type(model).__name__} cannot do without layer 0: the others take its position bias"
        )
    for index in reversed(range(len(layers))):
        if index not in kept:
            del layers[index]
    for index, layer in enumerate(layers):
        parts: list[Any] = [part for part in layer.modules() if hasattr(part, "layer_idx")]
        for part in parts:
            part.layer_idx = index
    _describe(made, kept)
    return made


def _describe(model: Any, kept: Seq[int]) -> None:
    """Let the configurations, of which modules may hold several, speak of the layers that are left."""
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    for config in configs.values():
        text = config.get_text_config(decoder=True)
        if getattr(text, "layer_types", None):
            text.layer_types = [text.layer_types[index] for index in kept]
        if not model.config.is_encoder_decoder:
            text.num_hidden_layers = len(kept)
