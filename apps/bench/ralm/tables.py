"""The figures of every part as a table on standard error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.bench.report import print_table

Column = tuple[str, Callable[[dict[str, Any]], str]]


def _times(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda cell: f"{cell[name]:.2f}x"


_COMMON: list[Column] = [
    ("speedup", _times("speedup")),
    ("hit rate", lambda cell: f"{cell['hit_rate']:.2f}"),
    ("stride", lambda cell: f"{cell['mean_stride']:.1f}"),
    ("calls", lambda cell: f"{cell['calls']} of {cell['sequential_calls']}"),
    ("prompts", lambda cell: str(cell["prompts"])),
    ("identical", lambda cell: f"{cell['identical']:.0%}"),
]
_REREADING: Column = ("over rereading", _times("speedup_over_rereading"))
_PREDICTED: Column = ("predicted", _times("predicted"))
_RATIO: Column = ("b/a", lambda cell: f"{cell['ratio']:g}")

COLUMNS: dict[str, list[Column]] = {
    "latency": [_RATIO, *_COMMON, _PREDICTED, _REREADING],
    "real": [
        ("retriever", lambda cell: cell["retriever"]),
        *_COMMON,
        _REREADING,
        ("a, ms", lambda cell: f"{cell['step_ms']:.1f}"),
        ("what", lambda cell: cell["about"]),
    ],
    "knn": [("k", lambda cell: str(cell["k"])), *_COMMON],
    "grid": [_RATIO, ("gamma", lambda cell: f"{cell['chosen_hit_rate']:g}"), *_COMMON, _PREDICTED],
}


def title(name: str, part: dict[str, Any]) -> str:
    """What the table of a part shows."""
    if name == "knn":
        return (
            f"KNN-LM, exact search over {part['entries']:,} contexts of {part['dimension']} dimensions "
            f"({part['read']:,} read, {part['synthetic']:,} synthetic), {part['model']}"
        )
    if name == "latency":
        return f"BM25 over {part['passages']:,} passages behind waits, a = {part['step_ms']:.1f} ms, {part['model']}"
    if name == "grid":
        return f"Waits and hit rates both chosen, a = {part['step_ms']:.1f} ms, {part['model']}"
    return f"Retrievers as they are, {part['model']}"


def show(name: str, part: dict[str, Any]) -> None:
    """Print it."""
    columns = COLUMNS[name]
    rows = [[value(cell) for _, value in columns] for cell in part["cells"]]
    print_table(title(name, part), [head for head, _ in columns], rows)
