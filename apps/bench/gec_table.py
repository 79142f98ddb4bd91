"""Tables of a `bench gec` result: for the terminal after a run, and in Markdown for the README.

`python -m apps.bench table FILE` prints the README's table from a result kept with `--out`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from apps.bench.report import hardware_line, markdown_table, print_table, say
from apps.printing import told

_SET_TITLES = {"jfleg": "JFLEG dev", "cweb_g": "CWEB-G dev", "samples": "samples"}
_COLUMNS = (
    "",
    "ms / sentence",
    "x transformers",
    "x CTranslate2 best",
    "identical",
    "passes",
    "rounds",
    "setting",
)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _cells(entry: dict[str, Any]) -> list[str]:
    return [
        entry["name"],
        _number(entry["ms"], ".2f"),
        _number(entry["times_transformers"], ".2f"),
        _number(entry["times_ctranslate2"], ".2f"),
        _number(100 * entry["identical"], ".1f") + " %",
        _number(entry["passes"], ".2f"),
        str(len(entry["rounds_ms"])),
        entry["setting"],
    ]


def _mode_title(rows: int) -> str:
    return "single sentences" if rows == 1 else f"batches of {rows}"


def _phase_rows(mode: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Milliseconds per sentence by phase of our loop, one row per entry."""
    phases = list(next(iter(mode["phases_ms"].values())))
    rows = [
        [name, *(f"{spent[phase]:.3f}" for phase in phases), f"{sum(spent.values()):.3f}"]
        for name, spent in mode["phases_ms"].items()
    ]
    return ["ms / sentence", *phases, "all"], rows


def show(result: dict[str, Any]) -> None:
    """Print every table of a result on standard error."""
    say(hardware_line(result["hardware"]))
    for name, figures in result["sets"].items():
        for key in ("single", "batch"):
            mode = figures[key]
            set_title = f"{_SET_TITLES.get(name, name)}, {figures['sentences']} sentences"
            print_table(
                f"{set_title}, {_mode_title(mode['rows'])}",
                _COLUMNS,
                [_cells(entry) for entry in mode["entries"]],
            )
            say(f"passes per sentence of perfect copying: {mode['passes_of_perfect_copying']:.2f}")
            for failure in mode["failures"]:
                say(f"{failure['name']} could not run: {failure['reason']}")
            if mode["phases_ms"]:
                print_table("where our time goes", *_phase_rows(mode))
    for failure in result["failures"]:
        say(f"{failure['name']} could not run: {failure['reason']}")


def _rounds(by_mode: Sequence[Mapping[str, dict[str, Any]]]) -> str:
    """Words for the rounds behind each figure, and who had fewer in any column."""
    fewest: dict[str, int] = {}
    for entries in by_mode:
        for name, entry in entries.items():
            fewest[name] = min(fewest.get(name, sys.maxsize), len(entry["rounds_ms"]))
    most = max(fewest.values())
    fewer = [f"{count} for {name}" for name, count in fewest.items() if count < most]
    return f"{most} rounds" + (f" ({', '.join(fewer)})" if fewer else "")


def readme_table(result: dict[str, Any]) -> str:
    """Milliseconds per sentence, sets and modes as columns, and the lowest identical-output rate."""
    modes = [
        (f"{_SET_TITLES.get(name, name)}, {_mode_title(figures[key]['rows'])}", figures[key])
        for name, figures in result["sets"].items()
        for key in ("single", "batch")
    ]
    by_mode = [{entry["name"]: entry for entry in mode["entries"]} for _, mode in modes]
    names = list(dict.fromkeys(name for entries in by_mode for name in entries))
    rows = []
    for name in names:
        entries = [entries.get(name) for entries in by_mode]
        cells = [f"{e['ms']:.2f} ({e['times_transformers']:.1f}x)" if e else "-" for e in entries]
        worst = min(e["identical"] for e in entries if e)
        rows.append([name, *cells, f"{100 * worst:.1f} %"])
    columns = ["ms per sentence (x transformers)", *(title for title, _ in modes), "identical, at least"]
    counts = ", ".join(str(figures["sentences"]) for figures in result["sets"].values())
    note = (
        f"`{result['model']}` on {hardware_line(result['hardware'])}. Sentences per set: {counts}; median of "
        f"{_rounds(by_mode)}, contestants taking turns; identical: share of the sentences "
        "with the same tokens as transformers greedy in float32."
    )
    return f"{markdown_table(columns, rows)}\n\n{note}"


def main(file: Annotated[Path, typer.Argument(metavar="FILE", help="A result kept with --out.")]) -> None:
    """Print the README's table of a gec result."""
    with told(ValueError, OSError):
        try:
            table = readme_table(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{file} is no result of `bench gec`; give a file that --out wrote") from error
        print(table)
