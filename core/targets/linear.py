"""Affine maps with frozen weights, in the fastest form that the processor has for their number type.

Knows matrices. Does not know models. Every form offers `map(x)`, activation included, and
`map.plus(x, residual)`, for a map without activation; x is [M, in].
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Protocol

import torch
from torch import nn
from torch.nn import functional as F
from transformers.activations import ACT2FN

#: Activations that oneDNN applies while it writes the result: its name for them and the variant.
_FUSED: dict[str | None, tuple[str, str]] = {
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
}
#: Rows that packed weights are laid out for; other counts run on the same layout.
_TYPICAL_ROWS = 32
#: Up to so many rows FBGEMM's int8 product is the faster one, above it oneDNN's.
_FEW_ROWS = 64


class Linear(Protocol):
    """`x -> activation(x @ weight.T + bias)`, and `plus`: the same with a residual instead of an activation."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...

    def plus(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor: ...


Form = Callable[[torch.Tensor, torch.Tensor | None, str | None], Linear]
"""(weight [out, in], bias, name of the activation) -> the map"""


class PlainLinear:
    """`F.linear`: any number type, any activation that transformers knows."""

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, activation: str | None = None
    ) -> None:
        self._weight, self._bias = weight, bias
        self._activation = None if activation is None else ACT2FN[activation]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self._weight, self._bias)
        return y if self._activation is None else self._activation(y)

    def plus(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return residual + F.linear(x, self._weight, self._bias)


class PackedLinear:
    """oneDNN with the weights laid out once, as `torch.compile` does it for a frozen model.

    Two to three times as fast as `F.linear` in float32 for the few rows of a pass, and half again in bfloat16.
    """

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, activation: str | None = None
    ) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TYPICAL_ROWS)
        self._bias = bias
        self._fused, self._variant = _FUSED.get(activation, ("none", ""))
        self._activation = None if activation is None or activation in _FUSED else ACT2FN[activation]
        self._run = torch.ops.mkldnn._linear_pointwise.default
        self._run_plus = torch.ops.mkldnn._linear_pointwise.binary

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = self._run(x, self._weight, self._bias, self._fused, [], self._variant)
        return y if self._activation is None else self._activation(y)

    def plus(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self._run_plus(x, residual, self._weight, self._bias, "add")


class Int8Linear:
    """Weights of 8 bits with a scale for each output, rows quantised as they come; sums and results are float32.

    Lossy: results differ from float32's by about a percent, and since all rows of a call share one scale, by what
    else is in the call. So drafts and neighbours may change a token where two were about equally good.
    """

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, activation: str | None = None
    ) -> None:
        scales = weight.abs().amax(dim=1).clamp_min(1e-8) / 127
        with warnings.catch_warnings():
            # Quantised tensors are deprecated as a type; the kernels that take them have no successor yet.
            warnings.simplefilter("ignore", UserWarning)
            quantised = torch.quantize_per_channel(
                weight, scales, torch.zeros_like(scales, dtype=torch.int64), 0, torch.qint8
            )
            self._for_few, self._for_many = (_prepacked(quantised, bias, name) for name in ("x86", "onednn"))
        self._activation = None if activation is None else ACT2FN[activation]
        # The bare operator: the overload's own call looks through its arguments in Python, which costs as much
        # again as a small product.
        self._run = torch.ops.quantized.linear_dynamic.default._op

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = self._product(x)
        return y if self._activation is None else self._activation(y)

    def plus(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self._product(x).add_(residual)

    def _product(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self._run(x, self._for_few if x.shape[0] <= _FEW_ROWS else self._for_many)
        return y


def _prepacked(weight: torch.Tensor, bias: torch.Tensor | None, engine: str) -> object:
    """The weights in the layout of one of torch's engines for quantised products, or of the default one."""
    chosen = torch.backends.quantized.engine
    try:
        if engine in torch.backends.quantized.supported_engines:
            torch.backends.quantized.engine = engine
        return torch.ops.quantized.linear_prepack(weight, bias)
    finally:
        torch.backends.quantized.engine = chosen


def fastest_linear(weight: torch.Tensor, bias: torch.Tensor | None, activation: str | None = None) -> Linear:
    """The packed form where oneDNN can run it, else the plain one."""
    form = PackedLinear if _can_pack(weight.dtype) else PlainLinear
    return form(weight, bias, activation)


def joined(maps: Seq[nn.Linear], form: Form) -> Linear:
    """Several maps of the same input as one."""
    weight = torch.cat([m.weight.detach() for m in maps])
    if all(m.bias is None for m in maps):
        return form(weight, None, None)
    biases: list[torch.Tensor] = [
        m.bias if m.bias is not None else m.weight.new_zeros(m.out_features) for m in maps
    ]
    return form(weight, torch.cat(biases), None)


def _can_pack(dtype: torch.dtype) -> bool:
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return False
    if dtype is torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype is torch.float32
