"""The loss of a run as a picture, from the `progress.json` that the trainer writes."""

from __future__ import annotations

import json
from pathlib import Path


def draw_curve(progress_file: Path, picture: Path, unit: str = "million target tokens") -> None:
    """The loss over tokens as a picture; RuntimeError where the extra `train` is missing."""
    try:
        import matplotlib
    except ImportError as missing:
        raise RuntimeError(
            "the loss curve needs matplotlib: install the extra `train` (pip install 'echodraft[train]')"
        ) from missing
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    progress = json.loads(progress_file.read_text())
    curve, held = progress["curve"], progress["held"]
    figure, axis = plt.subplots(figsize=(7, 4))
    axis.plot([row[1] / 1e6 for row in curve], [row[3] for row in curve], label="training")
    if held:
        label = "held out (averaged weights)"
        axis.plot([row[1] / 1e6 for row in held], [row[2] for row in held], "o-", label=label)
    axis.set(xlabel=unit, ylabel="loss", yscale="log")
    axis.grid(alpha=0.3)
    axis.legend()
    figure.tight_layout()
    figure.savefig(picture, dpi=120)
    plt.close(figure)
