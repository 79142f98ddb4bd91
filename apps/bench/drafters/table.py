"""The survey's table from a result: for the terminal, and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apps.bench.drafters.figures import places, row
from apps.bench.report import hardware_line, print_table, say

#: Two figures in one cell are cold and warm. TV: total variation between the first tokens of a rule that is not the
#: exact one and the target's distribution; floor: what as many tokens of the distribution itself have.
_COLUMNS = (
    "cold / warm",
    "x plain",
    "x plain, CPU",
    "tokens/pass",
    "nodes/pass",
    "drafting",
    "identical",
    "TV (floor)",
    "memory",
)
_STATES = ("cold", "warm")


def show(result: dict[str, Any]) -> None:
    """Print every table on standard error."""
    say(hardware_line(result["hardware"]))
    for place, cells in places(result):
        counts = sorted({len(cell["rounds"]) for cell in cells})
        rounds = f"rounds {counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "")
        title = f"{_title(result['model'], place)}, {rounds}"
        print_table(title, _COLUMNS, [_cells(cell) for cell in cells])
    for skipped in result["skipped"]:
        say(f"{skipped['name']} was left out: {skipped['reason']}")


def _title(model: str, place: tuple[str, float, int]) -> str:
    prompts, temperature, rows = place
    return f"{model}, {prompts}, temperature {temperature:g}, batch {rows}"


def _cells(cell: dict[str, Any]) -> list[str]:
    cold, warm = (row(cell, state) for state in _STATES)
    return [
        _name(cell),
        f"{cold['times']:.2f} / {warm['times']:.2f}",
        f"{cold['times_cpu']:.2f} / {warm['times_cpu']:.2f}",
        f"{cold['tokens_per_pass']:.2f} / {warm['tokens_per_pass']:.2f}",
        f"{cold['nodes_per_pass']:.1f} / {warm['nodes_per_pass']:.1f}",
        f"{100 * cold['draft_share']:.1f} / {100 * warm['draft_share']:.1f} %",
        f"{100 * cold['identical']:.1f} / {100 * warm['identical']:.1f} %",
        _loss(warm["loss"]),
        _size(cell["bytes"]),
    ]


def _name(cell: dict[str, Any]) -> str:
    """The drafter, and its rule where that is not the default; lossy ones say so."""
    from core.verification import LOSSLESS

    if cell["rule"] == "exact":
        return str(cell["drafter"])
    return f"{cell['drafter']}, {cell['rule']}" + ("" if cell["rule"] in LOSSLESS else " (lossy)")


def _loss(loss: dict[str, float] | None) -> str:
    return "" if loss is None else f"{loss['tv']:.3f} ({loss['floor']:.3f})"


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB" if num_bytes >= 1e5 else f"{num_bytes / 1e3:.1f} kB"


def draw(result: dict[str, Any], picture: Path) -> None:
    """Bars of the speed of every drafter, cold and warm, a panel for each set, temperature and batch.

    Raises RuntimeError where matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError as missing:
        raise RuntimeError("the picture needs matplotlib: pip install 'echodraft[train]'") from missing
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = places(result)
    tallest = max(len(cells) for _, cells in panels)
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    size = (7.5 * across, (0.28 * tallest + 1.2) * down)
    figure, axes = plt.subplots(down, across, figsize=size, squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, (place, cells) in zip(axes.flat, panels, strict=False):
        _panel(axis, cells)
        axis.set_title(_title(result["model"], place), fontsize=9)
    axes.flat[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(picture, dpi=120)
    plt.close(figure)


def _panel(axis: Any, cells: list[dict[str, Any]]) -> None:
    """Fastest on top; the line is plain decoding."""
    ordered = sorted(cells, key=lambda cell: max(row(cell, state)["times"] for state in _STATES))
    for offset, state in zip((0.2, -0.2), _STATES, strict=True):
        places_ = [i + offset for i in range(len(ordered))]
        axis.barh(places_, [row(cell, state)["times"] for cell in ordered], height=0.38, label=state)
    axis.axvline(1.0, color="black", linewidth=0.8)
    axis.set_yticks(range(len(ordered)), [_name(cell) for cell in ordered], fontsize=8)
    axis.set_xlabel("total time of plain decoding / total time", fontsize=8)
