"""Mixed precision where the hardware computes it."""

from __future__ import annotations

import torch


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies matrices in bf16 natively (an emulating CPU is 4x slower than in float32)."""
    if device.type != "cpu":
        return True
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def mixed_precision(device: torch.device) -> torch.autocast:
    """Autocast to bf16 on a device that has it; a context that changes nothing elsewhere."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=has_bfloat16(device))
