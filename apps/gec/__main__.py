"""`python -m apps.gec`: correct arguments, standard input or a file.

Knows options, streams and exit codes: 0 done, 2 wrong usage, unreadable input or unwritable output, 130 interrupted,
141 the reader of our output went away. Human words go to stderr; stdout is the result. Does not know how correcting
works; no model library is imported before there is a word to correct.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from apps.option_groups import takes_groups
from apps.printing import hush_hub, say, told

from .config import CorrectorConfig
from .inputs import InputError, check_argument, decode, line_groups, read_file
from .options import DEFAULTS, CorrectorOptions
from .segmentation import has_words

if TYPE_CHECKING:
    from .corrector import Corrector
    from .formats import Document
    from .results import SentenceCorrection

_LINES_AT_ONCE = 64


class FormatName(StrEnum):
    """Output formats by name."""

    text = "text"
    json = "json"
    diff = "diff"
    m2 = "m2"


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
@takes_groups
def correct(
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts; without any, standard input by line."),
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option(help="Correct a whole file ('-': standard input), layout kept.")
    ] = None,
    output: Annotated[
        FormatName, typer.Option("--format", help="json: an object per sentence and line; m2: for scorers.")
    ] = FormatName.text,
    corrector: CorrectorOptions,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = DEFAULTS.temperature,
    seed: Annotated[int, typer.Option(help="For temperatures above 0.")] = DEFAULTS.seed,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads.", show_default="as torch chooses")
    ] = DEFAULTS.threads,
    stats: Annotated[bool, typer.Option("--stats", help="Print counts and speed to stderr.")] = False,
) -> None:
    """Correct the grammar of English text. Outside the edits every byte stays as it was."""
    with told(ValueError, ImportError, words=_with_remedy):
        config = corrector.config(temperature=temperature, seed=seed, threads=threads)
        run = Run(config, output.value, sys.stdout.buffer)
        run.inputs(texts or [], file)
        run.report(full=stats)


def _with_remedy(error: Exception) -> str:
    missing = (getattr(error, "name", None) or "").partition(".")[0]
    return f"{error}; pip install 'echodraft[gec]'" if missing == "rapidfuzz" else str(error)


class Run:
    """One call of the command: a corrector that is loaded when it is first needed, and an output."""

    def __init__(self, config: CorrectorConfig, output: str, out: BinaryIO) -> None:
        from .formats import FORMATS, INLINE

        self.config = config
        self._model = config.model_name  # told at once if there is none
        self._write_format = FORMATS[output]
        self._inline = output in INLINE
        self._out = out
        self._colour = _wants_colour()
        self._corrector: Corrector | None = None

    def inputs(self, texts: list[str], file: Path | None) -> None:
        """Arguments if there are any, else the file, else standard input by line."""
        if texts and file is not None:
            raise InputError("both TEXT and --file were given; give one of them")
        if texts:
            self.arguments([check_argument(text) for text in texts])
        elif file is not None:
            self.file(decode(_stdin().read(), "standard input") if str(file) == "-" else read_file(file))
        else:
            self.lines(_stdin())

    def arguments(self, texts: list[str]) -> None:
        """Each text, followed by a line end."""
        for index, text in enumerate(texts):
            self._stream(text, index, end="\n" if text or len(texts) > 1 else "")

    def file(self, text: str) -> None:
        """One text as it is."""
        self._stream(text, 0, end="")

    def lines(self, stream: BinaryIO) -> None:
        """Every line on its own, written as soon as its group is corrected."""
        index = offset = 0
        for group in line_groups(stream, _LINES_AT_ONCE):
            if any(has_words(line) for line in group):
                done: Iterable[Iterable[SentenceCorrection]] = (
                    c.sentences for c in self._loaded().correct_batch(group)
                )
            else:
                done = [()] * len(group)
            for line, found in zip(group, done, strict=True):
                self._write(self._document(line, index, offset), found)
                index, offset = index + 1, offset + len(line)
            self._out.flush()

    def report(self, *, full: bool) -> None:
        """Warn of what was kept; with `full`, all counts and the speed."""
        if self._corrector is None:
            if full:
                say("nothing to correct")
            return
        stats = self._corrector.stats
        if stats.kept:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(stats.kept.items()))
            say(f"warning: kept as it was, because the output was not trusted: {reasons}")
        if full:
            for line in _stats_lines(self._corrector):
                say(line)

    def _stream(self, text: str, index: int, end: str) -> None:
        """Correct sentence by sentence, writing each as it is done."""
        found: Iterator[SentenceCorrection] = (
            self._loaded().correct_stream(text) if has_words(text) else iter(())
        )
        self._write(self._document(text, index, 0), found, flush=True)
        if self._inline and end:
            self._out.write(end.encode())
        self._out.flush()

    def _write(self, document: Document, found: Iterable[SentenceCorrection], flush: bool = False) -> None:
        for piece in self._write_format(document, found):
            self._out.write(piece.encode("utf-8"))
            if flush:
                self._out.flush()

    def _document(self, text: str, index: int, offset: int) -> Document:
        from .formats import Document

        return Document(text, index, offset, self._colour)

    def _loaded(self) -> Corrector:
        if self._corrector is None:
            if os.path.isdir(self._model):
                os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a local model asks no network for anything
            hush_hub()
            from .corrector import Corrector

            self._corrector = Corrector.from_config(self.config)
        return self._corrector


def _stdin() -> BinaryIO:
    """Standard input; a person in front of it is told so."""
    if sys.stdin is None:
        raise InputError("standard input is closed; give TEXT or --file")
    if sys.stdin.isatty():
        say("reading lines from the terminal; end with Ctrl-D")
    return sys.stdin.buffer


def _stats_lines(corrector: Corrector) -> list[str]:
    s = corrector.stats
    share = f" ({s.accepted / s.drafted:.0%})" if s.drafted else ""
    return [
        f"sentences {s.sentences}, changed {s.changed}, nothing to correct {s.skipped}, "
        f"kept {s.kept.total()}, single changes not made {s.dropped}",
        f"forwards {s.forwards} (in {corrector.engine.stats.target_calls} batched calls), "
        f"tokens per forward {s.tokens_per_forward:.2f}, drafted {s.drafted}, accepted {s.accepted}{share}",
        f"{s.sentences_per_second:.1f} sentences/s ({s.seconds:.2f} s, loading not counted)",
    ]


def _wants_colour() -> bool:
    """Colour on a terminal only, and never against NO_COLOR (no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def main() -> None:
    """Run the command."""
    app(prog_name="python -m apps.gec")


if __name__ == "__main__":
    main()
