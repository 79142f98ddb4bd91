"""`python -m apps.ralm`: write with documents or contexts retrieved again and again, and measure it.

Knows options and exit codes: 0 done, 2 wrong usage or unreadable input, 130 interrupted, 141 the reader of our output
went away. Human words go to stderr; stdout is the result. No model library is imported before it is needed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.drafter_options import DrafterOption
from apps.option_groups import takes_groups
from apps.printing import hush_hub, print_figures, say, told, tracked
from apps.text_input import need_characters

from . import options
from .knn.config import FOLLOWING, KnnConfig
from .opening import Chosen, is_knn, open_knn_lm, open_retrieval_lm, sequential
from .printing import say_stats

if TYPE_CHECKING:
    from .knn.knn_lm import KnnLM, Mode
    from .retrieval_lm import RetrievalLM

USER_ERRORS = (ValueError, ImportError, OSError)  # TimeoutError, of a busy index, among them

app = typer.Typer(
    add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)


@app.callback()
def ralm() -> None:
    """Text that retrieves again and again while it is written, with speculation on what will be retrieved."""
    hush_hub()


@app.command()
@takes_groups
def generate(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="Text to go on from.")],
    *,
    docs: options.Docs = None,
    datastore: options.Store = None,
    retriever: options.Retriever = "auto",
    is_plain: Annotated[bool, typer.Option("--sequential", help="Plain retrieval, for comparison.")] = False,
    retrieval: options.RetrievalOptions,
    knn: options.KnnOptions,
    speculation: options.SpeculationOptions,
    max_tokens: options.MaxTokens = 128,
    sampling: options.SamplingOptions,
    drafter: options.Drafter = "copy",
    drafter_option: DrafterOption = None,
    model: options.ModelOptions,
    stats: Annotated[bool, typer.Option("--stats", help="What speculation did and cost, to stderr.")] = False,
) -> None:
    """Write on from a prompt."""
    with told(*USER_ERRORS):
        if not prompt.strip():
            raise ValueError("the prompt is empty; give some text")
        need_characters(prompt, "the prompt")
        chosen = model.chosen(drafter, drafter_option)
        if is_knn(docs, datastore):
            assert datastore is not None
            guessing = speculation.config(prefetch=FOLLOWING)
            mode: Mode = "sequential" if is_plain else "speculative"
            neighbour_lm = open_knn_lm(chosen, datastore, knn.config(), guessing, mode)
            _print_knn(neighbour_lm, prompt, sampling.params(max_tokens), stats)
            return
        assert docs is not None
        writer = open_retrieval_lm(chosen, docs, retriever, retrieval.config(), speculation.config())
        writer = sequential(writer) if is_plain else writer
        _print_text(writer, prompt, sampling.params(max_tokens), stats)


@app.command(name="eval")
@takes_groups
def evaluation(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="QUESTIONS|TEXT",
            help='JSONL of {"question", "answers"}; with --datastore a text, plain or gzipped, for its perplexity.',
        ),
    ],
    *,
    docs: options.Docs = None,
    datastore: options.Store = None,
    output: options.Format = "text",
    limit: Annotated[
        int | None, typer.Option(min=1, help="First questions, or tokens of the text, only.")
    ] = None,
    retriever: options.Retriever = "auto",
    retrieval: options.RetrievalOptions,
    knn: options.KnnOptions,
    window: options.Window = 256,
    speculation: options.SpeculationOptions,
    max_tokens: options.MaxTokens = 32,
    sampling: options.SamplingOptions,
    drafter: options.Drafter = "copy",
    drafter_option: DrafterOption = None,
    model: options.ModelOptions,
) -> None:
    """Measure answers, or KNN-LM's perplexity.

    Questions are answered plainly and with speculation: scores, speed, whether the tokens are the same. With a
    datastore: the perplexity of a text, by the model alone and with its neighbours.
    """
    with told(*USER_ERRORS):
        chosen = model.chosen(drafter, drafter_option)
        if is_knn(docs, datastore):
            assert datastore is not None
            print_figures(_perplexity(chosen, datastore, source, knn.config(), window, limit), output)
            return
        assert docs is not None
        from .evaluation import Scores, evaluate, read_items

        items = read_items(source, limit)
        ours = open_retrieval_lm(chosen, docs, retriever, retrieval.config(), speculation.config())
        scores, params = Scores(), replace(sampling.params(max_tokens), stop=("\n",))
        for _ in tracked(evaluate(sequential(ours), ours, items, params, scores), "asking", len(items)):
            pass
        print_figures(scores.as_dict(), output)


@app.command()
@takes_groups
def datastore(
    texts: Annotated[list[Path], typer.Argument(metavar="TEXT", help="Text files, plain or gzipped.")],
    *,
    out: Annotated[Path, typer.Option(help="Folder for the datastore; one that is there is replaced.")],
    index: Annotated[str, typer.Option(help="flat (exact), hnsw or ivfpq.")] = "flat",
    window: options.Window = 256,
    model: options.ModelOptions,
) -> None:
    """Build what KNN-LM retrieves from.

    That is, the model's state before every token of the texts, and that token.
    """
    with told(*USER_ERRORS):
        from .knn.texts import read_text

        contents = [read_text(path) for path in texts]
        engine = model.chosen().engine()
        from .knn.building import build_datastore

        built = build_datastore(engine, contents, out, index=index, window=window, progress=_say_hundredths())
        say(f"{len(built):,} contexts of {built.dimension} dimensions ({built.kind}) in {out}")


def _print_text(model: RetrievalLM, prompt: str, params: Any, stats: bool) -> None:
    from .stats import RetrievalStats

    counted = RetrievalStats()
    for piece in model.stream(prompt, params, counted):
        print(piece, end="", flush=True)
    print()
    if stats:
        say_stats(counted)


def _print_knn(model: KnnLM, prompt: str, params: Any, stats: bool) -> None:
    (done,) = model.generate([prompt], params)
    print(done.text)
    if stats:
        say_stats(done.stats)


def _perplexity(
    chosen: Chosen, folder: Path, source: Path, config: KnnConfig, window: int, limit: int | None
) -> dict[str, Any]:
    from .knn.texts import read_text

    text = read_text(source)
    model = open_knn_lm(chosen, folder, config, options.SPECULATION)
    from .knn.perplexity import perplexity

    return perplexity(model, text, window=window, limit=limit, progress=_say_hundredths())


def _say_hundredths() -> Any:
    """A `progress(done, total)` that says every tenth."""
    said = [0]

    def progress(done: int, total: int) -> None:
        if 10 * done // total > said[0]:
            said[0] = 10 * done // total
            say(f"{done:,} of {total:,} tokens")

    return progress


def main() -> None:
    """Run the command."""
    app(prog_name="python -m apps.ralm")


if __name__ == "__main__":
    main()
