"""Passages one after the other in one file, read by position through a memory map; they never change."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

TEXTS, OFFSETS = "passages.jsonl", "offsets.npy"


class PassageLines:
    """Rows `(id, text, metadata)` as lines of JSON, and where each begins."""

    def __init__(self, content: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> None:
        self.content, self.offsets = content, offsets

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str, dict[str, object]]]) -> PassageLines:
        lines = [json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows]
        offsets = np.cumsum([0, *map(len, lines)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(lines), dtype=np.uint8), offsets)

    @classmethod
    def read(cls, folder: Path) -> PassageLines:
        offsets = np.load(folder / OFFSETS, allow_pickle=False)
        if offsets[-1] == 0:  # an empty file cannot be mapped
            return cls(np.empty(0, dtype=np.uint8), offsets)
        return cls(np.memmap(folder / TEXTS, dtype=np.uint8, mode="r"), offsets)

    def write(self, folder: Path) -> None:
        np.save(folder / OFFSETS, self.offsets, allow_pickle=False)
        (folder / TEXTS).write_bytes(self.content.tobytes())

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, position: int) -> tuple[str, str, dict[str, object]]:
        if not 0 <= position < len(self):
            raise IndexError(position)
        line = self.content[self.offsets[position] : self.offsets[position + 1]].tobytes()
        passage_id, text, metadata = json.loads(line)
        return passage_id, text, metadata
