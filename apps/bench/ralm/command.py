"""The options of `python -m apps.bench ralm`. Knows which parts there are; imports a part when it is asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from apps.bench.options import numbers, words
from apps.bench.ralm.setting import PARTS, RalmBench, read_passages
from apps.bench.report import hardware, publish, say
from apps.printing import told

MODULES = {"latency": "documents", "real": "documents", "grid": "documents", "knn": "neighbours"}
Part = Callable[[RalmBench, Sequence[str]], dict[str, Any]]


def run(bench: RalmBench, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Measure the parts; return what the JSON line holds, with the parts that an earlier run found."""
    from apps.bench.ralm.tables import show

    texts = read_passages(bench.passages)
    result: dict[str, Any] = {"bench": "ralm", "parts": dict((before or {}).get("parts", {}))}
    for name in bench.parts:
        say(f"part {name}")
        started = time.monotonic()
        measure: Part = getattr(import_module(f"apps.bench.ralm.{MODULES[name]}"), f"{name}_part")
        part = measure(bench, texts)
        about = {"model": bench.model_name, "max_tokens": bench.max_tokens, "hardware": hardware()}
        result["parts"][name] = {**about, "minutes": (time.monotonic() - started) / 60, **part}
        show(name, result["parts"][name])
    return result


def main(
    passages: Annotated[
        list[Path], typer.Option(help='JSONL of {"text"}, may be gzipped; may be given several times.')
    ],
    model: Annotated[
        str | None,
        typer.Option(help="Decoder-only model, or random.", show_default="the shipped one, else random"),
    ] = None,
    tokenizer: Annotated[str, typer.Option(help="Tokenizer of the random model.")] = RalmBench.tokenizer,
    parts: Annotated[str, typer.Option(help="What to run, comma between.")] = ",".join(PARTS),
    ratios: Annotated[str, typer.Option(help="latency: prices b/a, comma between.")] = "40,3,1,0.25",
    minutes: Annotated[float, typer.Option(help="For each part, about.")] = RalmBench.minutes,
    prompts: Annotated[int, typer.Option(help="Texts to write, at most.")] = RalmBench.prompts,
    max_tokens: Annotated[int, typer.Option(help="Tokens of each.")] = RalmBench.max_tokens,
    drafter: Annotated[str, typer.Option(help="Drafter of all contestants.")] = RalmBench.drafter,
    vectors: Annotated[int, typer.Option(help="real: vectors of the flat index.")] = RalmBench.vectors,
    embedded: Annotated[int, typer.Option(help="real: how many are passages.")] = RalmBench.embedded,
    graph: Annotated[int, typer.Option(help="real: vectors of the HNSW index.")] = RalmBench.graph,
    entries: Annotated[int, typer.Option(help="knn: contexts of the datastore.")] = RalmBench.entries,
    hidden: Annotated[int, typer.Option(help="knn: their dimensions, if random.")] = RalmBench.hidden,
    out: Annotated[
        Path | None, typer.Option(help="Also write the result here; parts not run stay as they are.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw speedup against b/a and gamma (PNG).")] = None,
) -> None:
    """Speculative retrieval against plain; KNN-LM.

    By the price of a retrieval: chosen waits, real indexes.
    """
    with told(ValueError, ImportError):
        bench = RalmBench(
            tuple(passages), model, tokenizer, words(parts), numbers("ratios", ratios, float),
            minutes=minutes, prompts=prompts, max_tokens=max_tokens, drafter=drafter, vectors=vectors,
            embedded=embedded, graph=graph, entries=entries, hidden=hidden,
        )  # fmt: skip
        before = json.loads(out.read_text()) if out is not None and out.exists() else None
        if picture is not None and "grid" not in {*bench.parts, *(before or {}).get("parts", {})}:
            raise ValueError(
                "--picture draws what the part grid finds; run it too, or before with the same --out"
            )
        result = run(bench, before)
        publish(result, out)
        if picture is not None:
            from apps.bench.ralm.picture import draw

            draw(result, picture)
