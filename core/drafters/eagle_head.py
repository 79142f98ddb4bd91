"""An autoregressive head on a target's hidden states (EAGLE, Li et al. 2401.15077).

Other than published, it looks back over a window only, so that its state is bounded and no prompt has to be read
twice: the hidden states say what came before.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from core.drafters.module_files import SavedModule

KeysValues = tuple[torch.Tensor, torch.Tensor]
"""Keys and values [B, heads, L, D] of one layer"""


class EagleHead(SavedModule):
    """From the hidden state behind token t and the embedding of token t + 1 to the hidden state behind t + 1.

    The target's own embedding and output projection stand before and behind it. A linear map joins both inputs;
    `num_layers` Llama-style layers (RMS norm, rotary positions, SwiGLU) follow, each seeing `window` places at most.
    """

    kind = "eagle_head"

    def __init__(
        self,
        hidden_size: int,
        embedding_size: int | None = None,
        *,
        num_heads: int = 4,
        intermediate_size: int | None = None,
        num_layers: int = 1,
        window: int = 16,
    ) -> None:
        if hidden_size % (2 * num_heads):
            raise ValueError(f"{hidden_size=} must be a multiple of 2 * {num_heads=}")
        if min(num_layers, window) < 1:
            raise ValueError(f"{num_layers=} and {window=} must be at least 1")
        embedding_size = embedding_size or hidden_size
        intermediate_size = intermediate_size or 2 * hidden_size
        super().__init__(
            hidden_size=hidden_size,
            embedding_size=embedding_size,
            num_heads=num_heads,
            intermediate_size=intermediate_size,
            num_layers=num_layers,
            window=window,
        )
        self.window = window
        self.join = nn.Linear(hidden_size + embedding_size, hidden_size)
        self.layers = nn.ModuleList(
            _Layer(hidden_size, num_heads, intermediate_size) for _ in range(num_layers)
        )

    def forward(
        self,
        hidden: torch.Tensor,
        embedded: torch.Tensor,
        mask: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
        past: list[KeysValues] | None = None,
    ) -> tuple[torch.Tensor, list[KeysValues]]:
        """Hidden states [B, T, hidden size] one place on, and keys and values, those of `past` in front.

        `hidden` [B, T, hidden size] and `embedded` [B, T, embedding size]: place t holds the state behind a token and
        the embedding of the next. `mask` [B, T, L] is True where a place is seen (default: itself and those before
        it, `window` in all); `positions` [B, T] default to 0, 1, ...; both must be given with `past`.
        """
        assert past is None or (mask is not None and positions is not None), "past places need a mask"
        num_places = hidden.shape[1]
        if positions is None:
            positions = torch.arange(num_places, device=hidden.device)[None]
        if mask is None:
            mask = self.window_mask(num_places, hidden.device)
        x = self.join(torch.cat([embedded, hidden], dim=-1))
        kept: list[KeysValues] = []
        for i, layer in enumerate(self.layers):
            x, both = layer(x, mask[:, None], positions, past[i] if past else None)
            kept.append(both)
        return x, kept

    def window_mask(self, num_places: int, device: torch.device) -> torch.Tensor:
        """Which places [1, T, T] see which: themselves and those before, `window` in all."""
        places = torch.arange(num_places, device=device)
        distance = places[:, None] - places
        return ((distance >= 0) & (distance < self.window))[None]


class _Layer(nn.Module):
    def __init__(self, hidden_size: int, num_heads: int, intermediate_size: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.RMSNorm(hidden_size)
        self.project = nn.Linear(hidden_size, 3 * hidden_size, bias=False)
        self.merge = nn.Linear(hidden_size, hidden_size, bias=False)
        self.norm_behind = nn.RMSNorm(hidden_size)
        self.widen = nn.Linear(hidden_size, 2 * intermediate_size, bias=False)
        self.narrow = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, past: KeysValues | None
    ) -> tuple[torch.Tensor, KeysValues]:
        batch, places, width = x.shape
        split = self.project(self.norm(x)).view(batch, places, 3, self.num_heads, width // self.num_heads)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        queries, keys = _rotated(queries, positions), _rotated(keys, positions)
        if past is not None:
            keys, values = torch.cat([past[0], keys], dim=2), torch.cat([past[1], values], dim=2)
        seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        x = x + self.merge(seen.transpose(1, 2).reshape(batch, places, width))
        gate, wide = self.widen(self.norm_behind(x)).chunk(2, dim=-1)
        return x + self.narrow(F.silu(gate) * wide), (keys, values)


def _rotated(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rotary positions [B, T] on `x` [B, heads, T, D]."""
    half = x.shape[-1] // 2
    rates = 10_000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = (positions[:, :, None].to(torch.float32) * rates)[:, None]
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
