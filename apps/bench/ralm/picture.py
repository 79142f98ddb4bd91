"""A picture of speedup against the price of a retrieval and the hit rate: lines predicted, dots measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from apps.bench.ralm.documents import predicted
from apps.bench.ralm.waiting import PER_QUERY
from apps.ralm.latencies import Latencies

_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple")


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw what the parts `grid` and `latency` of a result found.

    Raises ImportError without matplotlib (extra bench).
    """
    parts = result["parts"]
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    cells = parts["grid"]["cells"]
    prices = np.geomspace(0.1, 100, 61)
    for colour, rate in zip(_COLOURS, sorted({cell["chosen_hit_rate"] for cell in cells}), strict=False):
        line = [predicted(Latencies(1.0, b, b * PER_QUERY), rate) for b in prices]
        axes.plot(prices, line, color=colour, label=f"$\\gamma$ = {rate:g}")
        mine = [(cell["ratio"], cell["speedup"]) for cell in cells if cell["chosen_hit_rate"] == rate]
        axes.scatter(*zip(*mine, strict=True), color=colour, s=22)
    for cell in parts.get("latency", {}).get("cells", []):
        if cell["ratio"]:
            axes.scatter([cell["ratio"]], [cell["speedup"]], color="black", marker="x", s=30)
            label = f"{cell['hit_rate']:.2f}"
            axes.annotate(
                label, (cell["ratio"], cell["speedup"]), xytext=(4, -10), textcoords="offset points"
            )
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("price of a retrieval in steps of the model, b/a")
    axes.set_ylabel("speedup over sequential retrieval")
    axes.set_title("Lines: predicted. Dots: measured. Crosses: BM25, with its own hit rate", fontsize=9)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
