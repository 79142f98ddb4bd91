"""What a benchmark says about itself: the machine, a table for people, one JSON line for programs."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_PIPE_WIDTH = 160
_PACKAGES = ("torch", "transformers", "ctranslate2", "numpy")


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def hardware() -> dict[str, Any]:
    """Describe the machine and the versions that a figure depends on."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": _cpu_name(),
        "cores": cores,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in _PACKAGES},
    }


def hardware_line(described: dict[str, Any]) -> str:
    """One line of words from `hardware()`."""
    packages = ", ".join(f"{name} {number}" for name, number in described["packages"].items() if number)
    gpu = f", {described['gpu']}" if described["gpu"] else ""
    return f"{described['cpu']}, {described['cores']} cores{gpu}; Python {described['python']}, {packages}"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Show a table on standard error: first column words, the others figures."""
    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    wide_console(stderr=True).print(table)


def wide_console(stderr: bool = False) -> Console:
    """A console that does not squeeze a table into 80 columns when it writes to a file or a pipe."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_PIPE_WIDTH)


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same rows as a Markdown table."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def say(words: str) -> None:
    """A line for the person who waits, on standard error."""
    print(words, file=sys.stderr, flush=True)


def publish(result: dict[str, Any], out: Path | None) -> None:
    """Print the result as one JSON line, the last of standard output, and keep it in a file if asked."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result))
