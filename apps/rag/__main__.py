"""`python -m apps.rag`: index documents, chat with them, ask one question, measure.

Knows options, streams and exit codes: 0 done, 1 done but something was left out, 2 wrong usage or unreadable input,
130 interrupted, 141 the reader of our output went away. Human words go to stderr; stdout is the result. Without a
command it chats over the handbook. No model library is imported before it is needed.
"""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.option_groups import takes_groups
from apps.printing import hush_hub, print_figures, say, told, tracked

from . import options
from .config import ChatConfig
from .options import DEFAULTS

if TYPE_CHECKING:
    from .answering import Answer, Answerer
    from .library import Library

INCOMPLETE = 1
USER_ERRORS = (ValueError, ImportError, TimeoutError)

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def bare(context: typer.Context) -> None:
    """Answers from documents, with sources. Without a command: chat over the handbook."""
    hush_hub()
    if context.invoked_subcommand is None:
        chat()


@app.command()
def index(
    documents: Annotated[
        list[Path], typer.Argument(metavar="DOCS", help="Files and folders: txt, md, html, pdf, docx.")
    ],
    index: Annotated[Path, typer.Option(help="Folder of the index; made if it is not there.")],
    chunk_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a passage, at most.", show_default="200")
    ] = None,
) -> None:
    """Index documents. Run again, it touches only what changed, and drops what is gone."""
    with _told():
        from .library import build

        if chunk_tokens is not None and chunk_tokens < 8:
            raise ValueError(
                f"--chunk-tokens {chunk_tokens} is too few for a passage; 8 or more, 200 is usual"
            )
        report = build(documents, index, chunk_tokens=chunk_tokens)
        for line in report.lines:
            say(line)
        if report.failures:
            raise typer.Exit(INCOMPLETE)


@app.command()
@takes_groups
def chat(
    *,
    answering: options.AnswerOptions,
    k: options.K = DEFAULTS.k,
    follow_ups: Annotated[
        str, typer.Option(help="How follow-up questions are made to stand alone: auto, words, model, off.")
    ] = DEFAULTS.follow_ups,
    history: Annotated[
        Path | None, typer.Option(help="File of the conversations.", show_default="beside the index")
    ] = DEFAULTS.history,
    stats: options.Stats = False,
) -> None:
    """Chat with the indexed documents."""
    with _told():
        config = answering.config(k=k, follow_ups=follow_ups, history=history)
        answerer, library = _open(config)
        from .chat import Chat, Screen
        from .history import History

        kept = History(config.history or library.history_path)
        Chat(answerer, kept, Screen.standard(), stats=stats).run()


@app.command()
@takes_groups
def ask(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What to ask.")],
    *,
    output: options.Format = "text",
    answering: options.AnswerOptions,
    k: options.K = DEFAULTS.k,
    stats: options.Stats = False,
) -> None:
    """Answer one question and print its sources."""
    with _told():
        config = answering.config(k=k, follow_ups="off")
        if not question.strip():
            raise ValueError("the question is empty; ask something")
        answerer, _ = _open(config)
        prepared = answerer.prepare(question)
        if output == "json":
            print(json.dumps(answerer.answer(prepared).as_dict(), ensure_ascii=False))
            return
        _print_answer(answerer, prepared, stats)


@app.command(name="eval")
@takes_groups
def evaluation(
    questions: Annotated[
        Path, typer.Argument(metavar="QUESTIONS", help='JSONL: {"question", "answers", "gold", "passages"}.')
    ],
    *,
    output: options.Format = "text",
    limit: Annotated[int | None, typer.Option(min=1, help="First questions only.")] = None,
    answering: options.AnswerOptions,
    k: options.K = 10,
    answers: Annotated[
        Path | None, typer.Option(help="Write every answer with its sources here, as JSONL.")
    ] = None,
) -> None:
    """Measure retrieval and answers on a file of questions."""
    with _told():
        config = answering.config(k=k, follow_ups="off")
        from .evaluation import read_items

        items = read_items(questions, limit)
        needs_index = any(item.passages is None for item in items)
        answerer = _open(config)[0] if needs_index else _without_index(config)
        print_figures(_evaluate(answerer, items, answers), output)


def _evaluate(answerer: Answerer, items: list[Any], answers: Path | None) -> dict[str, Any]:
    from .evaluation import Scores, evaluate

    scores = Scores()
    with nullcontext() if answers is None else answers.open("w", encoding="utf-8") as kept:
        for item, answer in tracked(evaluate(answerer, items), "asking", len(items)):
            scores.add(item, answer)
            if kept is not None:
                print(json.dumps(answer.as_dict(), ensure_ascii=False), file=kept)
    return scores.as_dict()


def _print_answer(answerer: Answerer, prepared: Any, stats: bool) -> None:
    from .chat import Screen, dropped_line, show_sources, stats_line

    screen = Screen.standard()
    if prepared.dropped:
        say(dropped_line(prepared))
    answers: list[Answer] = []
    for piece, answer in answerer.stream(prepared):
        screen.piece(piece)
        answers = [answer]
    (answer,) = answers  # the last piece came with all of it
    screen.out.print()
    show_sources(answer, screen.out)
    if stats:
        say(stats_line(answer))


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
    say(library.description)
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

    model = ChatEchodraft(
        model=config.model or default_model(),
        drafter=config.drafter,
        drafter_options=config.drafter_options,
        device=config.device,
        dtype=config.dtype,
        threads=config.threads,
        temperature=config.temperature,
        seed=config.seed,
        max_tokens=config.max_tokens,
    )
    model.shared_engine()  # loaded now: the first question is no slower than the second
    return Answerer(search, model, k=config.k, way=config.follow_ups)


def _told() -> AbstractContextManager[None]:
    return told(*USER_ERRORS, words=_message)


def _message(error: Exception) -> str:
    """pydantic wraps our own words in its own; only ours are for people."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        return "; ".join(str(one.get("ctx", {}).get("error", one["msg"])) for one in errors())
    return str(error)


def main() -> None:
    """Run the command."""
    app(prog_name="python -m apps.rag")


if __name__ == "__main__":
    main()
