"""The result file: finished rounds of every cell, kept after each, so that a run can be stopped and gone on with.

Knows JSON. Does not know how anything is measured.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from apps.bench.drafters.measure import Place, Side

_IDENTITY = ("model", "hardware", "settings")


class Store:
    """The cells of a run by key. `path` None: nothing is kept on disk."""

    def __init__(self, path: Path | None, header: dict[str, Any]) -> None:
        """Read what an earlier run left. Raises ValueError where that was another model, machine or setting."""
        self._path = path
        self.result: dict[str, Any] = {"bench": "drafters", **header, "cells": {}, "skipped": []}
        if path is None or not path.exists():
            return
        kept = json.loads(path.read_text(encoding="utf-8"))
        ours = json.loads(json.dumps(header))
        for name in _IDENTITY:
            if kept.get(name) != ours[name]:
                raise ValueError(
                    f"{path} was measured with another {name} ({_difference(kept.get(name), ours[name])}); "
                    "give another --out, or remove it"
                )
        self.result["cells"] = kept["cells"]

    @property
    def cells(self) -> dict[str, dict[str, Any]]:
        """Key -> cell."""
        cells: dict[str, dict[str, Any]] = self.result["cells"]
        return cells

    def rounds(self, key: str) -> int:
        """How many rounds of a cell are there."""
        return len(self.cells[key]["rounds"]) if key in self.cells else 0

    def open_cell(self, key: str, place: Place, drafter: str, rule: str) -> dict[str, Any]:
        """The cell, empty if it is new."""
        fresh = {**asdict(place), "drafter": drafter, "rule": rule, "rounds": [], "bytes": 0, "loss": None}
        return self.cells.setdefault(key, fresh)

    def add(self, key: str, sides: dict[str, Side]) -> None:
        """Keep a round."""
        self.cells[key]["rounds"].append({name: asdict(side) for name, side in sides.items()})
        self.save()

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".tmp")
        partial.write_text(json.dumps(self.result) + "\n", encoding="utf-8")
        partial.replace(self._path)


def _difference(kept: Any, ours: Any) -> str:
    if isinstance(kept, dict) and isinstance(ours, dict):
        names = [name for name in {**kept, **ours} if kept.get(name) != ours.get(name)]
        return ", ".join(f"{name}: {kept.get(name)!r}, not {ours.get(name)!r}" for name in names)
    return f"{kept!r}, not {ours!r}"
