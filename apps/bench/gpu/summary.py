"""The result as a page of Markdown."""

from __future__ import annotations

from typing import Any

from apps.bench.report import hardware_line, markdown_table


def summary_markdown(result: dict[str, Any]) -> str:
    """Tables of what was measured so far, and what was left out."""
    parts = [
        "# `python -m apps.bench gpu`",
        f"{hardware_line(result['hardware'])}; device {result['hardware']['device']}. "
        f"{result['seconds']} s in all. Random weights throughout.",
        *_identity(result["identity"]),
        *_passes(result["passes"]),
        *_loop(result["loop"]),
        *_replay(result["replay"]),
    ]
    if result["skipped"]:
        parts += ["## Left out", "\n".join(f"- {name}" for name in result["skipped"])]
    return "\n\n".join(parts) + "\n"


def _identity(identity: dict[str, Any]) -> list[str]:
    if not identity:
        return []
    rows = [
        [mode, str(rate["rows"]), str(rate["identical"]), f"{rate['rate']:.4f}", str(rate["errors"])]
        for mode, rate in identity["rates"].items()
    ]
    return [
        "## Identity",
        "Rows whose tokens are those of plain decoding, each row alone, launched eagerly in the same number type; "
        "every drafter, greedy and sampled, 1 and 5 ragged rows.",
        markdown_table(["mode", "rows", "identical", "rate", "errors"], rows),
    ]


def _passes(passes: dict[str, list[dict[str, Any]]]) -> list[str]:
    rows = [
        [
            name,
            *(str(cell[key]) for key in ("rows", "queries", "length")),
            _ms(cell, "eager_ms"),
            _ms(cell, "graph_ms"),
        ]
        for name, cells in passes.items()
        for cell in cells
    ]
    if not rows:
        return []
    columns = ["shape", "rows", "queries", "length", "eager ms", "graph ms"]
    return ["## A bare pass", markdown_table(columns, rows)]


def _loop(loop: dict[str, list[dict[str, Any]]]) -> list[str]:
    rows = [
        [
            name,
            str(cell["rows"]),
            str(cell["nodes"]),
            *(_ms(cell, key) for key in ("step_ms", "pass_ms", "added_ms")),
        ]
        for name, cells in loop.items()
        for cell in cells
    ]
    if not rows:
        return []
    columns = ["shape", "rows", "nodes", "step ms", "pass ms", "loop adds ms"]
    return ["## A step of the engine", markdown_table(columns, rows)]


def _replay(replay: dict[str, Any]) -> list[str]:
    if not replay.get("cells"):
        return []
    keys = (
        "rows",
        "drafter",
        "tokens_per_second",
        "ratio",
        "tokens_per_second_with_prompt",
        "tokens_per_pass",
        "nodes_per_pass",
        "passes_without_draft",
        "identical",
    )
    rows = [[str(cell[key]) for key in keys] for cell in replay["cells"]]
    return [
        f"## Forced replay at {replay['shape']}",
        f"{replay['prepared']['shapes']} shapes were captured and timed in {replay['prepared']['seconds']} s. "
        "Outputs of which about two thirds is copied from the prompt. All rows start together and none replaces a "
        "finished one, so the last passes are narrow. Tokens per second from the first pass on; `ratio` to `none` "
        "in the same run; *primed*: the budget was told the measured times beforehand.",
        markdown_table([key.replace("_", " ") for key in keys], rows),
    ]


def _ms(cell: dict[str, Any], key: str) -> str:
    return f"{cell[key]:.3f}" if key in cell else "-"
