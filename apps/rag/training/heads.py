"""Writes weights of single heads and inner units into a Llama by what they look for, carry and say."""

from __future__ import annotations

from math import cos, sin
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

# The pair of dimensions that turns least.
_STILL = 63


class Heads:
    """Writes the first weights of single heads and inner units."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        self.config = model.config
        self.layers: Any = model.model.layers
        self.size: int = model.config.head_dim

    def rows(self, projection: nn.Linear, head: int) -> Tensor:
        """The rows of a projection that belong to a head."""
        return projection.weight.data[self.size * head : self.size * (head + 1)]

    def angle(self, pair: Any) -> Any:
        """By how much a pair of a head's dimensions, or each of several, turns from one place to the next."""
        return self.config.rope_parameters["rope_theta"] ** (-2 * pair / self.size)

    def looks(
        self, layer: int, head: int, pairs: slice | list[int], query: Tensor, key: Tensor, distance: float
    ) -> None:
        """A head drawn to what `key` reads, most of all `distance` tokens back; `query` says how strongly.

        Both are directions `[W]`. Fast rotations make a narrow window, slower ones a wide one.
        """
        attention = self.layers[layer].self_attn
        queries, keys = self.rows(attention.q_proj, head), self.rows(attention.k_proj, head)
        queries.zero_()
        keys.mul_(0.1)
        places = torch.arange(self.size // 2)[pairs]
        angles = distance * self.angle(places)
        keys[places] = key
        queries[places] = torch.cos(angles)[:, None] * query
        queries[places + self.size // 2] = -torch.sin(angles)[:, None] * query

    def nearest(self, layer: int, head: int, pairs: range, query: Tensor, key: Tensor) -> None:
        """A head drawn to the nearest of what `key` reads, and to nothing else.

        The slower a rotation, the more it counts: so what it is drawn by falls evenly with the distance, where equal
        rotations would rise again. One that hardly turns keeps it above nothing.
        """
        self.looks(layer, head, [*pairs, _STILL], query, key, 0.0)
        slowness = torch.tensor([self.angle(pair) ** -0.8 for pair in pairs])
        queries = self.rows(self.layers[layer].self_attn.q_proj, head)
        queries[list(pairs)] *= (slowness / slowness.mean())[:, None]
        queries[_STILL] *= len(pairs) / 2

    def matches(self, layer: int, head: int, pairs: slice, query: Tensor, key: Tensor, gain: float) -> None:
        """A head that looks where what `key` reads is what `query` reads here, by the slow rotations."""
        attention = self.layers[layer].self_attn
        places = torch.arange(self.size // 2)[pairs]
        places = torch.cat((places, places + self.size // 2))[: len(query)]
        self.rows(attention.q_proj, head)[places] = gain * query[: len(places)]
        self.rows(attention.k_proj, head)[places] = gain * key[: len(places)]

    def prefers(self, layer: int, head: int, pair: int, query: Tensor, key: Tensor) -> None:
        """A head drawn to what `key` reads wherever it stands, beside what it looks for."""
        attention = self.layers[layer].self_attn
        self.rows(attention.q_proj, head)[pair] = query
        self.rows(attention.k_proj, head)[pair] = key

    def turns(self, layer: int, head: int, pair: int, query: Tensor, key: Tensor, phase: float) -> None:
        """A head drawn to what `key` reads by the cosine of how far a rotation has turned since then, and a phase."""
        attention = self.layers[layer].self_attn
        self.rows(attention.k_proj, head)[pair] = key
        self.rows(attention.q_proj, head)[pair] = cos(phase) * query
        self.rows(attention.q_proj, head)[pair + self.size // 2] = sin(phase) * query

    def carries(self, layer: int, head: int, read: Tensor, write: Tensor, gain: float) -> None:
        """A head whose value is a reading, written elsewhere or back where it was read."""
        count = len(read)
        attention = self.layers[layer].self_attn
        self.rows(attention.v_proj, head)[:count] = read
        attention.o_proj.weight.data[:, self.size * head : self.size * head + count] = gain * write.T

    def says(
        self, layer: int, first: int, condition: Tensor, read: Tensor, write: Tensor, gain: float
    ) -> None:
        """Inner units from `first` on that write what they read where `condition` `[W]` holds."""
        inner = self.layers[layer].mlp
        units = slice(first, first + len(read))
        inner.gate_proj.weight.data[units] = condition
        inner.up_proj.weight.data[units] = read
        inner.down_proj.weight.data[:, units] = gain * write.T
