"""Trained parts of drafters on disk: a folder with `config.json` (the sizes) and `model.safetensors`.

Knows files. Does not know what the modules compute.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file, save_file
from torch import nn


class SavedModule(nn.Module):
    """A module whose constructor takes nothing but the sizes in `config` (keyword arguments, JSON values)."""

    #: Written to `config.json`, so that a folder of another module is refused.
    kind: str

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.config = config

    def save(self, folder: str | Path) -> None:
        """Write the folder; what is there is replaced."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        settings = {"kind": self.kind, **self.config}
        (place / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        tensors = {name: value.detach().cpu().contiguous() for name, value in self.state_dict().items()}
        save_file(tensors, place / "model.safetensors")

    @classmethod
    def load(
        cls, folder: str | Path, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
    ) -> Self:
        """The module of a folder, in evaluation mode, frozen; in the number type it was saved in by default.

        Raises ValueError for a folder that holds no such module.
        """
        place = Path(folder)
        if not (place / "config.json").is_file():
            raise ValueError(
                f"{str(place)!r} holds no config.json; give the folder that a {cls.kind} was saved to"
            )
        settings = json.loads((place / "config.json").read_text(encoding="utf-8"))
        kind = settings.pop("kind", None)
        if kind != cls.kind:
            raise ValueError(f"{str(place)!r} holds {kind or 'a model'}, not {cls.kind}")
        tensors = load_file(place / "model.safetensors")
        module = cls(**settings)
        module.to(next(iter(tensors.values())).dtype)
        module.load_state_dict(tensors)
        return module.to(device=device, dtype=dtype).eval().requires_grad_(False)
