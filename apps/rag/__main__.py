"""`python -m apps.rag`: index documents, chat with them, ask one question, measure.

Knows options, streams and exit codes: 0 done, 1 done but something was left out, 2 wrong usage or unreadable input,
130 interrupted, 141 the reader of our output went away. Human words go to stderr; stdout is the result. Without a
command it chats over the handbook. No model library is imported before it is needed.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .config import ChatConfig

if TYPE_CHECKING:
    from .answering import Answer, Answerer
    from .library import Library

INCOMPLETE, USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141
DEFAULTS = ChatConfig()


class FormatName(StrEnum):
    """Output formats by name."""

    text = "text"
    json = "json"


Index = Annotated[Path | None, typer.Option(help="Folder of the index.", show_default="the handbook's")]
Model = Annotated[
    str | None, typer.Option(help="Folder or hub id of a decoder-only model.", show_default="the shipped one")
]
DrafterName = Annotated[
    str, typer.Option(help="How guesses are made (none: plain decoding); never changes the answer.")
]
K = Annotated[int, typer.Option("--k", help="Passages to look up.")]
MinScore = Annotated[
    float | None,
    typer.Option(help="Passages below are not good enough.", show_default="what suits the search"),
]
FollowUps = Annotated[
    str, typer.Option(help="How follow-up questions are made to stand alone: auto, words, model, off.")
]
Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
Seed = Annotated[int, typer.Option(help="For temperatures above 0.")]
MaxTokens = Annotated[int, typer.Option(help="Tokens of an answer, at most.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N.")]
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16, int8.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads.", show_default="as torch chooses")]
Stats = Annotated[bool, typer.Option("--stats", help="Seconds, tokens and tokens per forward, to stderr.")]
Output = Annotated[FormatName, typer.Option("--format", help="text, or one JSON object.")]

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def bare(context: typer.Context) -> None:
    """Answers from documents, with sources. Without a command: chat over the handbook."""
    if context.invoked_subcommand is None:
        chat()


@app.command()
def index(
    documents: Annotated[
        list[Path], typer.Argument(metavar="DOCS...", help="Files and folders: txt, md, html, pdf, docx.")
    ],
    index: Annotated[Path, typer.Option(help="Folder of the index; made if it is not there.")],
    chunk_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a passage, at most.", show_default="200")
    ] = None,
) -> None:
    """Index documents. Run again, it touches only what changed, and drops what is gone."""
    with _told():
        from .library import build

        report = build(documents, index, chunk_tokens=chunk_tokens)
        for line in report.lines:
            _say(line)
        if report.failures:
            raise typer.Exit(INCOMPLETE)


@app.command()
def chat(
    index: Index = DEFAULTS.index,
    model: Model = DEFAULTS.model,
    drafter: DrafterName = DEFAULTS.drafter,
    k: K = DEFAULTS.k,
    min_score: MinScore = DEFAULTS.min_score,
    follow_ups: FollowUps = DEFAULTS.follow_ups,
    temperature: Temperature = DEFAULTS.temperature,
    seed: Seed = DEFAULTS.seed,
    max_tokens: MaxTokens = DEFAULTS.max_tokens,
    device: Device = DEFAULTS.device,
    dtype: Dtype = DEFAULTS.dtype,
    threads: Threads = DEFAULTS.threads,
    history: Annotated[
        Path | None, typer.Option(help="File of the conversations.", show_default="beside the index")
    ] = DEFAULTS.history,
    stats: Stats = False,
) -> None:
    """Chat with the indexed documents."""
    with _told():
        config = ChatConfig(index, model, drafter, k, min_score, follow_ups, temperature, seed, max_tokens, device,
                            dtype, threads, history)  # fmt: skip
        answerer, library = _open(config)
        from .chat import Chat, Screen
        from .history import History

        kept = History(config.history or library.history_path)
        Chat(answerer, kept, Screen.standard(), stats=stats).run()


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="What to ask.")],
    index: Index = DEFAULTS.index,
    output: Output = FormatName.text,
    model: Model = DEFAULTS.model,
    drafter: DrafterName = DEFAULTS.drafter,
    k: K = DEFAULTS.k,
    min_score: MinScore = DEFAULTS.min_score,
    temperature: Temperature = DEFAULTS.temperature,
    seed: Seed = DEFAULTS.seed,
    max_tokens: MaxTokens = DEFAULTS.max_tokens,
    device: Device = DEFAULTS.device,
    dtype: Dtype = DEFAULTS.dtype,
    threads: Threads = DEFAULTS.threads,
    stats: Stats = False,
) -> None:
    """Answer one question and print its sources."""
    with _told():
        config = ChatConfig(index, model, drafter, k, min_score, "off", temperature, seed, max_tokens, device, dtype,
                            threads)  # fmt: skip
        if not question.strip():
            raise ValueError("the question is empty; ask something")
        answerer, _ = _open(config)
        prepared = answerer.prepare(question)
        if output is FormatName.json:
            print(json.dumps(answerer.answer(prepared).as_dict(), ensure_ascii=False))
            return
        _print_answer(answerer, prepared, stats)


@app.command(name="eval")
def evaluation(
    questions: Annotated[
        Path, typer.Argument(metavar="QUESTIONS", help='JSONL: {"question", "answers", "gold", "passages"}.')
    ],
    index: Index = DEFAULTS.index,
    output: Output = FormatName.text,
    limit: Annotated[int | None, typer.Option(help="First questions only.")] = None,
    model: Model = DEFAULTS.model,
    drafter: DrafterName = DEFAULTS.drafter,
    k: K = 10,
    min_score: MinScore = DEFAULTS.min_score,
    temperature: Temperature = DEFAULTS.temperature,
    seed: Seed = DEFAULTS.seed,
    max_tokens: MaxTokens = DEFAULTS.max_tokens,
    device: Device = DEFAULTS.device,
    dtype: Dtype = DEFAULTS.dtype,
    threads: Threads = DEFAULTS.threads,
    answers: Annotated[
        Path | None, typer.Option(help="Write every answer with its sources here, as JSONL.")
    ] = None,
) -> None:
    """Measure retrieval and answers on a file of questions."""
    with _told():
        config = ChatConfig(index, model, drafter, k, min_score, "off", temperature, seed, max_tokens, device, dtype,
                            threads)  # fmt: skip
        from .evaluation import read_items

        items = read_items(questions, limit)
        needs_index = any(item.passages is None for item in items)
        answerer, _ = _open(config) if needs_index else (_without_index(config), None)
        scores = _evaluate(answerer, items, answers)
        if output is FormatName.json:
            print(json.dumps(scores))
        else:
            _print_scores(scores)


def _evaluate(answerer: Answerer, items: list[Any], answers: Path | None) -> dict[str, Any]:
    from contextlib import nullcontext

    from rich.console import Console
    from rich.progress import track

    from .evaluation import Scores, evaluate

    scores = Scores()
    with nullcontext() if answers is None else answers.open("w", encoding="utf-8") as kept:
        done = evaluate(answerer, items)
        for item, answer in track(done, "asking", total=len(items), console=Console(stderr=True)):
            scores.add(item, answer)
            if kept is not None:
                print(json.dumps(answer.as_dict(), ensure_ascii=False), file=kept)
    return scores.as_dict()


def _print_scores(scores: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "value")
    for name, value in scores.items():
        shown = "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
        table.add_row(name, shown)
    Console().print(table)


def _print_answer(answerer: Answerer, prepared: Any, stats: bool) -> None:
    from .chat import Screen, dropped_line, show_sources, stats_line

    screen = Screen.standard()
    if prepared.dropped:
        _say(dropped_line(prepared))
    answers: list[Answer] = []
    for piece, answer in answerer.stream(prepared):
        screen.piece(piece)
        answers = [answer]
    (answer,) = answers  # the last piece came with all of it
    screen.out.print()
    show_sources(answer, screen.out)
    if stats:
        _say(stats_line(answer))


def _open(config: ChatConfig) -> tuple[Answerer, Library]:
    """The index, then the model: a wrong path is told before seconds of loading."""
    from .engines import checked_model, default_model

    name = checked_model(config.model or default_model())
    if os.path.isdir(name):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a local model asks no network for anything
    from .library import open_handbook, open_library

    library = (
        open_handbook(config.min_score)
        if config.index is None
        else open_library(config.index, config.min_score)
    )
    _say(library.description)
    return _answerer(config, library), library


def _without_index(config: ChatConfig) -> Answerer:
    """For questions that bring their passages."""

    class Nothing:
        def find(self, query: str, k: int) -> list[Any]:
            return []

    return _answerer(config, Nothing())


def _answerer(config: ChatConfig, search: Any) -> Answerer:
    from .answering import Answerer
    from .chat_model import ChatEchodraft
    from .engines import default_model

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # our own message says it once
    model = ChatEchodraft(
        model=config.model or default_model(),
        drafter=config.drafter,
        device=config.device,
        dtype=config.dtype,
        threads=config.threads,
        temperature=config.temperature,
        seed=config.seed,
        max_tokens=config.max_tokens,
    )
    model.shared_engine()  # loaded now: the first question is no slower than the second
    return Answerer(search, model, k=config.k, way=config.follow_ups)


@contextmanager
def _told() -> Iterator[None]:
    """Turn what can go wrong into a message and an exit code."""
    try:
        yield
    except (ValueError, ImportError, TimeoutError) as error:
        sys.stdout.flush()
        _say(f"error: {_message(error)}")
        raise typer.Exit(USAGE) from error
    except KeyboardInterrupt:
        raise _leave(INTERRUPTED) from None
    except BrokenPipeError:
        raise _leave(BROKEN_PIPE) from None


def _message(error: Exception) -> str:
    """pydantic wraps our own words in its own; only ours are for people."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        return "; ".join(str(one.get("ctx", {}).get("error", one["msg"])) for one in errors())
    return str(error)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _leave(code: int) -> typer.Exit:
    """How to end at once: what is left in the output's buffer goes nowhere, so that Python cannot fail on it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return typer.Exit(code)


def main() -> None:
    """Run the command."""
    app(prog_name="python -m apps.rag")


if __name__ == "__main__":
    main()
