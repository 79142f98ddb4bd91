"""Muon for the hidden matrices (orthogonalised momentum, a whole shape at once), AdamW for the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from .precision import has_bfloat16

# Tables that are looked up row by row; an orthogonal step would move every row, seen or not.
_LOOKED_UP = re.compile(r"shared|embed|lm_head|relative_attention_bias|wte|wpe")
_KINDS = ("muon", "adamw")
_A, _B, _C = 3.4445, -4.7750, 2.0315


def orthogonalise(batch: Tensor, steps: int = 5) -> Tensor:
    """The nearest half-orthogonal matrices, roughly, of a batch of wide matrices (Newton-Schulz, in bf16 if native)."""
    x = batch.bfloat16() if has_bfloat16(batch.device) else batch
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = torch.bmm(x, x.mT)
        poly = torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C)
        x = torch.baddbmm(x, poly, x, beta=_A)
    return x


class Muon(torch.optim.Optimizer):
    """Muon with steps as large as AdamW's (0.2 times the root of the larger side): one rate serves both."""

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float, momentum: float = 0.95, decay: float = 0.01
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step; matrices are laid on their side where they are tall and worked on in stacks."""
        for group in self.param_groups:
            stacks: dict[tuple[int, int], list[nn.Parameter]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    stacks.setdefault((min(p.shape), max(p.shape)), []).append(p)
            for (_, wide), stack in stacks.items():
                self._step_stack(stack, wide, group)

    def _step_stack(self, stack: list[nn.Parameter], wide: int, group: dict[str, Any]) -> None:
        updates = []
        for p in stack:
            assert p.grad is not None, "only matrices with a gradient are stacked"
            buffer = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
            buffer.lerp_(p.grad, 1 - group["momentum"])
            nesterov = p.grad.lerp(buffer, group["momentum"])
            updates.append(nesterov.mT if p.shape[0] > p.shape[1] else nesterov)
        ortho = orthogonalise(torch.stack(updates)).to(stack[0].dtype)
        size = 0.2 * wide**0.5 * group["lr"]
        for p, update in zip(stack, ortho, strict=True):
            p.mul_(1 - group["lr"] * group["decay"])
            p.sub_(update.mT if p.shape[0] > p.shape[1] else update, alpha=size)


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Hidden matrices, and everything else (embeddings, positions, norms, biases)."""
    hidden: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, p in model.named_parameters():
        (hidden if p.ndim == 2 and not _LOOKED_UP.search(name) else rest).append(p)
    return hidden, rest


def make_optimizers(model: nn.Module, kind: str, lr: float, embed_lr: float) -> list[torch.optim.Optimizer]:
    """The optimizers of a run: `muon` or `adamw` for the hidden matrices, and AdamW for the rest at `embed_lr`."""
    if kind not in _KINDS:
        raise ValueError(f"unknown optimizer {kind!r}; choose one of {', '.join(_KINDS)}")
    hidden, rest = split_parameters(model)
    adam: dict[str, Any] = {"betas": (0.9, 0.98), "eps": 1e-8, "fused": True}
    made: list[torch.optim.Optimizer] = []
    if hidden and kind == "muon":
        made.append(Muon(hidden, lr=lr))
    elif hidden:
        made.append(torch.optim.AdamW(hidden, lr=lr, weight_decay=0.01, **adam))
    if rest:
        made.append(torch.optim.AdamW(rest, lr=embed_lr, weight_decay=0.0, **adam))
    return made
