"""`python -m apps.bench ralm`: speculative against plain retrieval while writing, at chosen prices of a retrieval.

The index is real; a wait of b0 + b1 * n seconds for n queries is put before its answers, so that b/a (a retrieval's
price in steps of the model) is chosen instead of found. Per price, the same prompts are written plainly (our own
sequential mode), plainly with everything read anew for every document (the paper's baseline), and speculatively,
taking turns. Reported: seconds, ratios, the share of identical texts, and the ratio that the scheduler's formula
predicts for the hit rate that was found.
"""

from __future__ import annotations

import gzip
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.bench.report import hardware, print_table, publish, say

if TYPE_CHECKING:
    from apps.ralm import RetrievalCompletion, RetrievalLM
    from apps.ralm.retrievers import Retriever
    from core import Engine

#: b1 as a share of b0: a batch costs a little more than one query.
_PER_QUERY = 0.005
RANDOM = "random"


@dataclass(frozen=True)
class RalmBench:
    """What to measure. `model` "random" is a small random Llama over `tokenizer`: its text is noise, its times are
    real. `ratios` are b/a; `milliseconds` fixed waits (a remote service); both empty: the index as fast as it is."""

    passages: Path
    model: str = "data/models/chat-small"
    tokenizer: str = "data/models/gec-small"
    retriever: str = "bm25"
    ratios: tuple[float, ...] = (40.0, 3.0, 1.0, 0.25)
    milliseconds: tuple[float, ...] = ()
    prompts: int = 5
    max_tokens: int = 64
    drafter: str = "copy"

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        for name in ("prompts", "max_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if min((*self.ratios, *self.milliseconds, 1)) < 0:
            raise ValueError("ratios and milliseconds must be 0 or greater")
        if self.retriever not in ("bm25", "flat", "hnsw"):
            raise ValueError(f"retriever {self.retriever!r} is unknown; choose bm25, flat or hnsw")


@dataclass
class Tally:
    """What one contestant did at one price."""

    seconds: list[float] = field(default_factory=list)
    texts: list[list[int]] = field(default_factory=list)
    calls: int = 0
    guesses: int = 0
    hits: int = 0
    strides: list[int] = field(default_factory=list)

    def add(self, done: RetrievalCompletion, seconds: float) -> None:
        self.seconds.append(seconds)
        self.texts.append(done.token_ids)
        self.calls += done.stats.calls
        self.guesses += done.stats.guesses
        self.hits += done.stats.hits
        self.strides += done.stats.strides


def read_passages(path: Path) -> list[str]:
    """The texts of a JSONL file, plain or gzipped. Raises FileNotFoundError where none is."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is not here; give a JSONL file of passages with --passages")
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def index_of(kind: str, texts: Sequence[str]) -> Retriever:
    """A real index over the passages."""
    from apps.ralm.retrievers import retriever_for
    from retrieval import Bm25Index, FaissStore, default_embeddings

    if kind == "bm25":
        return retriever_for(Bm25Index.from_texts(texts))
    embeddings, reason = default_embeddings()
    if embeddings is None:
        raise ValueError(f"there is no embedding model here ({reason}); use --retriever bm25")
    store = FaissStore(embeddings, index=kind, durable=False)
    store.add_texts(texts)
    return retriever_for(store)


def slowed(inner: Retriever, base: float) -> Retriever:
    """The same retriever behind a wait of base * (1 + 0.005 n) seconds."""
    from apps.ralm.cache import DocumentCache
    from apps.ralm.retrievers import Query, Retriever

    class Slowed(Retriever):
        def encode(self, texts: Sequence[str]) -> list[Query]:
            return inner.encode(texts)

        def search(self, queries: Sequence[Query], k: int) -> list[list[str]]:
            time.sleep(base * (1 + _PER_QUERY * len(queries)))
            return inner.search(queries, k)

        def text(self, name: str) -> str:
            return inner.text(name)

        def cache(self) -> DocumentCache:
            return inner.cache()

    return Slowed()


def engines(bench: RalmBench) -> tuple[Engine, Engine]:
    """The engine of every day, and one that keeps nothing between documents; one model."""
    from core import Engine

    if bench.model != RANDOM:
        engine = Engine.from_pretrained(bench.model, bench.drafter)
    else:
        from transformers import AutoTokenizer

        from apps.bench.random_model import random_llama
        from core.targets.registry import target_for

        tokenizer = AutoTokenizer.from_pretrained(bench.tokenizer)
        engine = Engine(target_for(random_llama(len(tokenizer))), tokenizer, bench.drafter)
    return engine, Engine(engine.target, engine.tokenizer, bench.drafter, prefix_rows=0)


def measure(models: dict[str, RetrievalLM], prompts: Sequence[str], max_tokens: int) -> dict[str, Tally]:
    """Every contestant writes every prompt, taking turns."""
    from core import SamplingParams

    params = SamplingParams(max_new_tokens=max_tokens)
    tallies = {name: Tally() for name in models}
    for prompt in prompts:
        for name, model in models.items():
            started = time.perf_counter()
            (done,) = model.generate([prompt], params)
            tallies[name].add(done, time.perf_counter() - started)
    return tallies


def cell(
    bench: RalmBench, pair: tuple[Engine, Engine], retriever: Retriever, prompts: Sequence[str], wait: float,
    step: float,
) -> dict[str, Any]:  # fmt: skip
    """One price: what was found and what was predicted. `step` is a, in seconds."""
    from apps.ralm import RetrievalLM, SpeculationConfig
    from apps.ralm.scheduler import Latencies, best_plan, expected_rate

    engine, forgetful = pair
    asked = slowed(retriever, wait) if wait else retriever
    models = {
        "reread": RetrievalLM(forgetful, asked, mode="sequential"),
        "sequential": RetrievalLM(engine, asked, mode="sequential"),
        "speculative": RetrievalLM(engine, asked),
    }
    found = measure(models, prompts, bench.max_tokens)
    ours, plain = found["speculative"], found["sequential"]
    config = SpeculationConfig()
    hit_rate = min(ours.hits / max(ours.guesses, 1), config.max_hit_rate)
    latencies = Latencies(step, wait, wait * _PER_QUERY)
    plan = best_plan(latencies, hit_rate, config)
    predicted = expected_rate(plan, latencies, hit_rate, config.max_ahead) * (
        step + latencies.verification(1)
    )
    return {
        "ratio": wait / step,
        "wait_ms": 1e3 * wait,
        **{f"{name}_seconds": sum(tally.seconds) for name, tally in found.items()},
        "speedup": sum(plain.seconds) / sum(ours.seconds),
        "speedup_over_rereading": sum(found["reread"].seconds) / sum(ours.seconds),
        "predicted": predicted,
        "hit_rate": ours.hits / max(ours.guesses, 1),
        "mean_stride": statistics.fmean(ours.strides),
        "calls": ours.calls,
        "sequential_calls": plain.calls,
        "identical": statistics.fmean(a == b for a, b in zip(plain.texts, ours.texts, strict=True)),
        "identical_to_rereading": statistics.fmean(
            a == b for a, b in zip(found["reread"].texts, ours.texts, strict=True)
        ),
    }


def run(bench: RalmBench) -> dict[str, Any]:
    """Measure every price; return what the JSON line holds."""
    texts = read_passages(bench.passages)
    say(f"indexing {len(texts)} passages ({bench.retriever})")
    retriever = index_of(bench.retriever, texts)
    pair = engines(bench)
    prompts = [" ".join(text.split()[:40]) for text in texts[:: max(1, len(texts) // bench.prompts)]][
        : bench.prompts
    ]
    step = seconds_per_step(pair[0], retriever, prompts, bench.max_tokens)
    say(f"a = {1e3 * step:.1f} ms a step")
    waits = [ratio * step for ratio in bench.ratios] + [ms / 1e3 for ms in bench.milliseconds] or [0.0]
    cells = []
    for wait in waits:
        cells.append(cell(bench, pair, retriever, prompts, wait, step))
        say(f"b/a = {wait / step:g}: {cells[-1]['speedup']:.2f}x")
    return {
        "bench": "ralm",
        "hardware": hardware(),
        "model": Path(bench.model).name,
        "retriever": bench.retriever,
        "passages": len(texts),
        "prompts": len(prompts),
        "step_ms": 1e3 * step,
        "cells": cells,
    }


def seconds_per_step(engine: Engine, retriever: Retriever, prompts: Sequence[str], max_tokens: int) -> float:
    """a: seconds of writing one stretch and encoding its query, after a warm-up."""
    from apps.ralm import RetrievalLM

    measure({"warm-up": RetrievalLM(engine, retriever)}, prompts[:1], max_tokens)
    model = RetrievalLM(engine, retriever, mode="sequential")
    from core import SamplingParams

    (done,) = model.generate(prompts[:1], SamplingParams(max_new_tokens=max_tokens))
    return (done.stats.seconds.write + done.stats.seconds.encode) / done.stats.steps


def show(result: dict[str, Any]) -> None:
    """The figures as a table on standard error."""
    columns = ("b/a", "wait ms", "speedup", "predicted", "over rereading", "hit rate", "stride", "identical")
    rows = [
        (
            f"{found['ratio']:.2f}",
            f"{found['wait_ms']:.1f}",
            f"{found['speedup']:.2f}x",
            f"{found['predicted']:.2f}x",
            f"{found['speedup_over_rereading']:.2f}x",
            f"{found['hit_rate']:.2f}",
            f"{found['mean_stride']:.1f}",
            f"{found['identical']:.0%}",
        )
        for found in result["cells"]
    ]
    title = f"Retrieval while writing, {result['retriever']} over {result['passages']} passages, {result['model']}"
    print_table(title, columns, rows)


def main(
    passages: Annotated[Path, typer.Option(help='JSONL of {"text"}, may be gzipped.')],
    model: Annotated[str, typer.Option(help="Decoder-only model, or random.")] = RalmBench.model,
    tokenizer: Annotated[str, typer.Option(help="Tokenizer of the random model.")] = RalmBench.tokenizer,
    retriever: Annotated[str, typer.Option(help="bm25, flat or hnsw.")] = RalmBench.retriever,
    ratios: Annotated[str, typer.Option(help="Prices b/a, comma between; may be empty.")] = "40,3,1,0.25",
    milliseconds: Annotated[str, typer.Option(help="Fixed waits, comma between.")] = "",
    prompts: Annotated[int, typer.Option(help="Texts to write.")] = RalmBench.prompts,
    max_tokens: Annotated[int, typer.Option(help="Tokens of each.")] = RalmBench.max_tokens,
    drafter: Annotated[str, typer.Option(help="Drafter of all contestants.")] = RalmBench.drafter,
    out: Annotated[Path | None, typer.Option(help="Also write the result to this file.")] = None,
) -> None:
    """Speculative retrieval against plain retrieval, at chosen prices of a retrieval."""
    try:
        bench = RalmBench(
            passages, model, tokenizer, retriever, _numbers(ratios), _numbers(milliseconds), prompts, max_tokens,
            drafter,
        )  # fmt: skip
        result = run(bench)
    except (ValueError, FileNotFoundError) as error:
        say(f"error: {error}")
        raise typer.Exit(2) from error
    show(result)
    publish(result, out)


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(",") if part.strip())
