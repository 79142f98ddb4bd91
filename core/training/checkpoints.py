"""Checkpoints of a run: one file per step saved, the newest two kept, read as tensors only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch


def save_checkpoint(folder: Path, step: int, state: dict[str, Any]) -> Path:
    """Writes `step-N.pt`, whole or not at all, and removes all but the newest two."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:08d}.pt"
    partial = path.with_suffix(".tmp")
    torch.save(state, partial)
    partial.replace(path)
    for old in sorted(folder.glob("step-*.pt"))[:-2]:
        old.unlink()
    return path


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint in a folder, if there is one."""
    found = sorted(folder.glob("step-*.pt"))
    return found[-1] if found else None


def read_checkpoint(path: Path, device: torch.device) -> dict[str, Any]:
    """What `save_checkpoint` wrote, on a device."""
    state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    return state
