"""The conversation in a terminal: questions in, streamed answers with sources out.

Knows lines, commands and what is shown. Does not know how answers are made. Answers and sources go to stdout, hints
and notes to stderr; without a terminal, questions are read line by line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module

from rich.console import Console
from rich.markup import escape

from .answering import Answer, Answerer, Question
from .history import History
from .interrupt import StopOnInterrupt

HELP = """/sources  the passages behind the last answer, in full
/new      a new conversation
/help     this list
/quit     leave (Ctrl-D too)
Ctrl-C    stop the answer that is being written"""

#: Control characters that documents have no business sending to a terminal.
_STEERING = {code: None for code in [*range(32), *range(127, 160)] if chr(code) not in "\n\t"}


@dataclass(frozen=True)
class Screen:
    """Where results go and where hints go."""

    out: Console
    hints: Console

    @classmethod
    def standard(cls) -> Screen:
        """stdout and stderr; colours where these are terminals."""
        return cls(
            Console(highlight=False, soft_wrap=True), Console(stderr=True, highlight=False, soft_wrap=True)
        )

    def hint(self, text: str) -> None:
        self.hints.print(text, style="dim", markup=False)

    def piece(self, text: str) -> None:
        """A part of an answer, at once and as it is; a terminal is kept from what would steer it."""
        self.out.file.write(text.translate(_STEERING) if self.out.is_terminal else text)
        self.out.file.flush()


class Chat:
    """Reads questions until there are no more."""

    def __init__(self, answerer: Answerer, history: History, screen: Screen, *, stats: bool = False) -> None:
        self._answerer = answerer
        self._history = history
        self._screen = screen
        self._stats = stats
        self._last: Answer | None = None
        self._commands: dict[str, Callable[[], None]] = {
            "/sources": self._show_sources,
            "/new": self._begin,
            "/help": lambda: self._screen.hints.print(HELP, markup=False),
        }

    def run(self) -> None:
        """Ask until the end of input or /quit. Raises ValueError where there is no input."""
        if sys.stdin is None:
            raise ValueError("standard input is closed; give it a file, a pipe or a terminal")
        is_terminal = sys.stdin.isatty()
        if is_terminal:
            with suppress(ImportError):
                import_module("readline")  # arrow keys and recalled lines in `input`
            self._greet()
        while True:
            line = _read_line(is_terminal)
            if line is None or line in ("/quit", "/exit"):
                return
            if line in self._commands:
                self._commands[line]()
            elif line.startswith("/") and " " not in line:
                self._screen.hint(f"there is no command {line}; /help lists them")
            elif line:
                self._ask(line)

    def _greet(self) -> None:
        turns = len(self._history.turns)
        self._screen.hint("Ask something; /help lists the commands.")
        if turns:
            self._screen.hint(f"Your last conversation goes on ({turns} answered); /new begins another.")

    def _ask(self, text: str) -> None:
        earlier = [(turn.standalone, turn.answer) for turn in self._history.turns]
        try:
            with StopOnInterrupt() as interrupt:
                question = self._answerer.prepare(text, earlier)
                self._note(question)
                answer = None if interrupt.asked else self._stream(question, interrupt)
        except ValueError as error:
            self._screen.hint(str(error))
            return
        if answer is None or not (answer.text or answer.stopped):
            self._screen.hint("(stopped)" if answer is None else "(the model wrote nothing)")
            return
        self._last = answer
        show_sources(answer, self._screen.out)
        if self._stats:
            self._screen.hint(stats_line(answer))
        self._keep(answer)

    def _stream(self, question: Question, interrupt: StopOnInterrupt) -> Answer | None:
        answer: Answer | None = None
        for piece, answer in self._answerer.stream(question, self._history.answers):
            self._screen.piece(piece)
            if interrupt.asked:
                answer.stopped = True
                break
        self._screen.out.print()
        if answer is not None and answer.stopped:
            self._screen.hint("(stopped)")
        return answer

    def _note(self, question: Question) -> None:
        if question.standalone != question.text:
            self._screen.hint(f"asked as: {question.standalone}")
        if question.dropped:
            self._screen.hint(dropped_line(question))

    def _keep(self, answer: Answer) -> None:
        sources = answer.question.sources
        cited = tuple(sources[number - 1].place for number in answer.cited)
        question = answer.question
        try:
            self._history.add(question.text, question.standalone, answer.text, cited, answer.stopped)
        except ValueError as error:
            self._screen.hint(str(error))

    def _show_sources(self) -> None:
        if self._last is None or not self._last.question.sources:
            self._screen.hint(
                "no sources yet; ask something first" if self._last is None else "there were none"
            )
            return
        for number, source in enumerate(self._last.question.sources, 1):
            self._screen.out.print(f"[bold]\\[{number}][/bold] {escape(source.place)}{_score(source.score)}")
            self._screen.out.print(source.text + "\n", markup=False)

    def _begin(self) -> None:
        self._history.begin()
        self._last = None
        self._screen.hint("A new conversation.")


def show_sources(answer: Answer, out: Console) -> None:
    """One line for each cited source; where none is cited, the best one, named as such."""
    sources, cited = answer.question.sources, answer.cited
    if not sources or answer.abstained:
        return
    if not cited:
        out.print("  nothing is cited; the best passage:", style="dim")
    for number in cited or [1]:
        source = sources[number - 1]
        out.print(f"  [dim]\\[{number}] {escape(source.place)}{_score(source.score)}[/dim]")


def dropped_line(question: Question) -> str:
    """What was left out for want of room."""
    dropped = question.dropped
    what = "the worst passage was" if dropped == 1 else f"the {dropped} worst passages were"
    return f"{what} left out: the model's context has no room for more"


def stats_line(answer: Answer) -> str:
    """Seconds, tokens and how the drafts fared."""
    parts = [f"search {answer.question.search_seconds:.2f} s"]
    if answer.first_token_seconds is not None:
        parts.append(f"first token {answer.first_token_seconds:.2f} s")
    parts.append(f"all {answer.seconds:.2f} s")
    if "output_tokens" in answer.usage:
        parts.append(f"{answer.usage['input_tokens']} + {answer.usage['output_tokens']} tokens")
    if "tokens_per_call" in answer.stats:
        passes, drafted = answer.stats["target_calls"], answer.stats["drafted"]
        parts.append(f"{passes} forwards, {answer.stats['tokens_per_call']:.2f} tokens per forward")
        parts.append(f"drafted {drafted}, accepted {answer.stats['accepted']}")
    return "; ".join(parts)


def _score(score: float | None) -> str:
    return "" if score is None else f", score {score:.2f}"


def _read_line(is_terminal: bool) -> str | None:
    """The next line without blanks around it; None at the end. Ctrl-C while typing clears the line."""
    while True:
        try:
            return input("> " if is_terminal else "").strip()
        except EOFError:
            return None
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            print("\n(Ctrl-D or /quit leaves)", file=sys.stderr)
        except UnicodeDecodeError as error:
            print(f"that line is not UTF-8: {error}", file=sys.stderr)
