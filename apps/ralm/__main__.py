"""`python -m apps.ralm`: write with documents retrieved again and again, and measure it.

Knows options, streams and exit codes: 0 done, 2 wrong usage or unreadable input, 130 interrupted, 141 the reader of our
output went away. Human words go to stderr; stdout is the result. No model library is imported before it is needed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .config import RetrievalConfig, SpeculationConfig

if TYPE_CHECKING:
    from .retrieval_lm import RetrievalLM
    from .stats import RetrievalStats

USAGE, INTERRUPTED, BROKEN_PIPE = 2, 130, 141
SHIPPED_MODEL = Path(__file__).resolve().parents[2] / "data" / "models" / "chat-small"
RETRIEVAL, SPECULATION = RetrievalConfig(), SpeculationConfig()

Docs = Annotated[Path, typer.Option(help="File or folder of documents: txt, md, html, pdf, docx.")]
Model = Annotated[
    str | None, typer.Option(help="Folder or hub id of a decoder-only model.", show_default="the shipped one")
]
RetrieverName = Annotated[str, typer.Option("--retriever", help="dense, bm25, or auto.")]
DrafterName = Annotated[str, typer.Option(help="How tokens are guessed; never changes the text.")]
Stride = Annotated[int, typer.Option(help="Tokens between retrievals.")]
QueryTokens = Annotated[int, typer.Option(help="Last tokens that ask.")]
DocumentTokens = Annotated[int, typer.Option(help="Tokens of a document, at most.")]
Prefetch = Annotated[int, typer.Option(help="Documents that a verification brings; 1: no prefetching.")]
Fixed = Annotated[
    int | None, typer.Option("--steps", help="Always so many guesses.", show_default="the scheduler's")
]
Asynchronous = Annotated[bool, typer.Option(help="Write on while a verification runs.")]
Paper = Annotated[bool, typer.Option("--paper", help="The published scheduler and limits.")]
MaxTokens = Annotated[int, typer.Option(help="Tokens to write, at most.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
Seed = Annotated[int, typer.Option(help="For temperatures above 0.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N.")]
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16, int8.")]

app = typer.Typer(
    add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)


@app.callback()
def ralm() -> None:
    """Text that retrieves a document every few tokens, with speculation on what will be retrieved."""


@app.command()
def generate(
    prompt: Annotated[str, typer.Argument(help="Text to go on from.")],
    docs: Docs,
    model: Model = None,
    retriever: RetrieverName = "auto",
    sequential: Annotated[
        bool, typer.Option("--sequential", help="Plain retrieval, for comparison.")
    ] = False,
    stride: Stride = RETRIEVAL.stride,
    query_tokens: QueryTokens = RETRIEVAL.query_tokens,
    document_tokens: DocumentTokens = RETRIEVAL.document_tokens,
    prefetch: Prefetch = SPECULATION.prefetch,
    steps: Fixed = None,
    asynchronous: Asynchronous = SPECULATION.asynchronous,
    paper: Paper = False,
    max_tokens: MaxTokens = 128,
    temperature: Temperature = 0.0,
    seed: Seed = 0,
    drafter: DrafterName = "copy",
    device: Device = "auto",
    dtype: Dtype = "auto",
    stats: Annotated[bool, typer.Option("--stats", help="What speculation did and cost, to stderr.")] = False,
) -> None:
    """Write on from a prompt."""
    with _told():
        if not prompt.strip():
            raise ValueError("the prompt is empty; give some text")
        retrieval = RetrievalConfig(stride, query_tokens, document_tokens)
        speculation = _speculation(prefetch, steps, asynchronous, paper)
        writer = _open(docs, model, retriever, drafter, device, dtype, retrieval, speculation)
        if sequential:
            writer = _sequential(writer)
        params = _params(temperature, max_tokens, seed)
        _print_text(writer, prompt, params, stats)


@app.command(name="eval")
def evaluation(
    questions: Annotated[Path, typer.Argument(metavar="QUESTIONS", help='JSONL: {"question", "answers"}.')],
    docs: Docs,
    output: Annotated[Literal["text", "json"], typer.Option("--format", help="text or json.")] = "text",
    limit: Annotated[int | None, typer.Option(help="First questions only.")] = None,
    model: Model = None,
    retriever: RetrieverName = "auto",
    stride: Stride = RETRIEVAL.stride,
    query_tokens: QueryTokens = RETRIEVAL.query_tokens,
    document_tokens: DocumentTokens = RETRIEVAL.document_tokens,
    prefetch: Prefetch = SPECULATION.prefetch,
    steps: Fixed = None,
    asynchronous: Asynchronous = SPECULATION.asynchronous,
    paper: Paper = False,
    max_tokens: MaxTokens = 32,
    temperature: Temperature = 0.0,
    seed: Seed = 0,
    drafter: DrafterName = "copy",
    device: Device = "auto",
    dtype: Dtype = "auto",
) -> None:
    """Answer questions plainly and with speculation: scores, speed, and whether the tokens are the same."""
    with _told():
        from .evaluation import Scores, evaluate, read_items

        items = read_items(questions, limit)
        retrieval = RetrievalConfig(stride, query_tokens, document_tokens)
        speculation = _speculation(prefetch, steps, asynchronous, paper)
        ours = _open(docs, model, retriever, drafter, device, dtype, retrieval, speculation)
        from rich.console import Console
        from rich.progress import track

        scores, params = Scores(), replace(_params(temperature, max_tokens, seed), stop=("\n",))
        done = evaluate(_sequential(ours), ours, items, params, scores)
        for _ in track(done, "asking", total=len(items), console=Console(stderr=True)):
            pass
        _print_scores(scores.as_dict(), output)


def _speculation(prefetch: int, steps: int | None, asynchronous: bool, paper: bool) -> SpeculationConfig:
    base = SpeculationConfig.paper() if paper else SPECULATION
    chosen = replace(base, prefetch=prefetch, asynchronous=asynchronous)
    return chosen if steps is None else replace(chosen, scheduler=False, steps=steps)


def _params(temperature: float, max_tokens: int, seed: int) -> Any:
    from core import SamplingParams

    return SamplingParams(temperature=temperature, max_new_tokens=max_tokens, seed=seed)


def _open(
    docs: Path, model: str | None, retriever: str, drafter: str, device: str, dtype: str,
    retrieval: RetrievalConfig, speculation: SpeculationConfig,
) -> RetrievalLM:  # fmt: skip
    """The documents, then the model: a wrong path is told before seconds of loading."""
    name = str(SHIPPED_MODEL) if model is None else os.path.expanduser(model)
    if model is None and not SHIPPED_MODEL.is_dir():
        raise ValueError(
            "no model is shipped with this copy; give --model, a folder or a hub id of a causal model"
        )
    from .corpus import open_corpus

    if os.path.isdir(name):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a local model asks no network for anything
    corpus = open_corpus(docs, retriever, _say)
    from transformers.utils import logging

    from .retrieval_lm import RetrievalLM

    logging.disable_progress_bar()
    return RetrievalLM.from_pretrained(
        name, corpus, drafter=drafter, device=device, dtype=dtype, config=retrieval, speculation=speculation
    )


def _sequential(model: RetrievalLM) -> RetrievalLM:
    from .retrieval_lm import RetrievalLM

    return RetrievalLM(model.engine, model.retriever, mode="sequential", config=model.config)


def _print_text(model: RetrievalLM, prompt: str, params: Any, stats: bool) -> None:
    from .stats import RetrievalStats

    counted = RetrievalStats()
    for piece in model.stream(prompt, params, counted):
        print(piece, end="", flush=True)
    print()
    if stats:
        for line in _stats_lines(counted):
            _say(line)


def _stats_lines(stats: RetrievalStats) -> list[str]:
    seconds = stats.seconds
    return [
        f"retrievals {stats.retrievals}, calls of the retriever {stats.calls} (saved {stats.saved}), "
        f"queries {stats.queries}, asynchronous {stats.asynchronous_calls}",
        f"guesses right {stats.hits} of {stats.guesses}, roll-backs {stats.roll_backs} "
        f"({stats.lost_tokens} tokens), strides {' '.join(map(str, stats.strides)) or '-'}",
        f"a {stats.step * 1e3:.2f} ms, b {stats.base * 1e3:.2f} + {stats.per_query * 1e3:.2f} n ms, "
        f"gamma {stats.hit_rate:.2f}",
        f"seconds: encode {seconds.encode:.3f}, lookup {seconds.lookup:.3f}, search {seconds.search:.3f}, "
        f"wait {seconds.wait:.3f}, write {seconds.write:.3f}",
    ]


def _print_scores(scores: dict[str, Any], output: str) -> None:
    if output == "json":
        print(json.dumps(scores))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "value")
    for name, value in scores.items():
        shown = "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
        table.add_row(name, shown)
    Console().print(table)


@contextmanager
def _told() -> Iterator[None]:
    """Turn what can go wrong into a message and an exit code."""
    try:
        yield
    except BrokenPipeError:
        # What is left in the output's buffer goes nowhere, so that Python cannot fail on it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None
    except (ValueError, ImportError, TimeoutError, OSError) as error:
        sys.stdout.flush()
        _say(f"error: {error}")
        raise typer.Exit(USAGE) from error
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Run the command."""
    app(prog_name="python -m apps.ralm")


if __name__ == "__main__":
    main()
