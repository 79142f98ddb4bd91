"""Feed-forward heads on a target's last hidden state, one for each place ahead (Medusa, Cai et al. 2401.10774;
blockwise parallel decoding, Stern et al. 1811.03115)."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from core.drafters.module_files import SavedModule


class MedusaHeads(SavedModule):
    """Head k reads the hidden state behind token t and guesses token t + 2 + k (t + 1 is the target's own).

    A head is `num_layers` residual blocks `x + silu(linear(x))`, zero at first, and a projection to the vocabulary:
    one of its own (Medusa), or, with `shares_output`, the target's (blockwise decoding), which is then handed to
    `forward` and costs no memory.
    """

    kind = "medusa_heads"

    def __init__(
        self,
        hidden_size: int,
        vocab_size: int,
        num_heads: int,
        *,
        num_layers: int = 1,
        shares_output: bool = False,
    ) -> None:
        if min(hidden_size, vocab_size, num_heads, num_layers) < 1:
            raise ValueError(
                f"{hidden_size=}, {vocab_size=}, {num_heads=} and {num_layers=} must be at least 1"
            )
        super().__init__(
            hidden_size=hidden_size,
            vocab_size=vocab_size,
            num_heads=num_heads,
            num_layers=num_layers,
            shares_output=shares_output,
        )
        self.num_heads = num_heads
        self.vocab_size = vocab_size
        # All heads in one tensor: they run in one product, not one after the other.
        self.weight = nn.Parameter(torch.zeros(num_layers, num_heads, hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.zeros(num_layers, num_heads, hidden_size))
        self.output: nn.Parameter | None = None
        if not shares_output:
            self.output = nn.Parameter(torch.empty(num_heads, vocab_size, hidden_size))
            nn.init.normal_(self.output, std=hidden_size**-0.5)

    def start_from(self, output_weight: torch.Tensor) -> None:
        """Let every head begin as the target's own output projection [V, hidden size]."""
        if self.output is not None:
            with torch.no_grad():
                self.output.copy_(output_weight.to(self.output))

    def states(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states [M, hidden size] to those of every head [heads, M, hidden size]."""
        states = hidden.expand(self.num_heads, *hidden.shape)
        for weight, bias in zip(self.weight, self.bias, strict=True):
            states = states + F.silu(torch.baddbmm(bias[:, None], states, weight.transpose(1, 2)))
        return states

    def forward(self, hidden: torch.Tensor, output_weight: torch.Tensor | None = None) -> torch.Tensor:
        """Logits [heads, M, V] behind hidden states [M, hidden size].

        `output_weight` [V, hidden size] is needed by heads that share the target's, and else not looked at.
        """
        states = self.states(hidden)
        if self.output is not None:
            return torch.bmm(states, self.output.transpose(1, 2))
        assert output_weight is not None, "heads that share the target's output projection must be given it"
        return states @ output_weight.T
