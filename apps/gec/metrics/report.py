"""Tables of an evaluation, for people; the numbers themselves are in the dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

_QUALITY_COLUMNS = {
    "GLEU": ("gleu", ".1f"),
    "precision": ("precision", ".1f"),
    "recall": ("recall", ".1f"),
    "F0.5": ("f05", ".1f"),
    "changed %": ("changed", ".1f"),
    "clean changed %": ("clean_changed", ".1f"),
    "lost tails": ("lost_tails", "d"),
    "loops": ("loops", "d"),
}
_KEPT_COLUMNS = {
    "numbers": "numbers %",
    "names": "names %",
    "urls": "URLs %",
    "emails": "e-mails %",
    "code": "code %",
}
_WORK_COLUMNS = {
    "sentences": ("sentences", "d"),
    "sentences/s": ("sentences_per_second", ".1f"),
    "passes": ("passes", ".2f"),
    "1 + novel tokens": ("bound", ".2f"),
    "ratio": ("ratio_to_bound", ".2f"),
    "tokens/pass": ("tokens_per_pass", ".2f"),
    "accepted %": ("accepted", ".1f"),
    "refused": ("refused", "d"),
    "= plain %": ("equal_to_plain", ".2f"),
    "= transformers %": ("equal_to_transformers", ".2f"),
}


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    return table


def _quality_cells(scores: Mapping[str, Any]) -> list[str]:
    cells = [_cell(scores[key], form) for key, form in _QUALITY_COLUMNS.values()]
    return cells + [_cell(scores["kept"][kind], ".1f") for kind in _KEPT_COLUMNS]


def show(sets: Mapping[str, Mapping[str, Any]], console: Console) -> None:
    """Print quality (each set beside doing nothing) and work (passes, speed, identity)."""
    quality = _table("quality; spans kept", ["", *_QUALITY_COLUMNS, *_KEPT_COLUMNS.values()])
    work = _table("work", ["", *_WORK_COLUMNS])
    for name, found in sets.items():
        quality.add_row(name, *_quality_cells(found["quality"]))
        quality.add_row("  do nothing", *_quality_cells(found["do_nothing"]))
        work.add_row(name, *(_cell(found["work"][key], form) for key, form in _WORK_COLUMNS.values()))
    console.print(quality)
    console.print(work)
