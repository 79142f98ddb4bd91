"""How corrections are written: text, json (one object per sentence and line), diff, m2.

Knows corrections and characters. Does not know where the text came from or goes to. Every format takes a document
and its corrected sentences as they arrive, and yields pieces of output, so that nothing waits for the end.
To add one: a function and a line in `FORMATS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .edits import Edit, tokenize
from .results import SentenceCorrection

RED, GREEN, RESET = "\x1b[31;9m", "\x1b[32m", "\x1b[0m"


@dataclass(frozen=True)
class Document:
    """One input: an argument, a line or a file. `index` counts from 0; `offset` is where the input begins in all
    that was read (characters). `colour` says that a terminal will show the output."""

    text: str
    index: int = 0
    offset: int = 0
    colour: bool = False


Format = Callable[[Document, Iterable[SentenceCorrection]], Iterator[str]]


def as_text(document: Document, sentences: Iterable[SentenceCorrection]) -> Iterator[str]:
    """The corrected text."""
    return _woven(document, sentences, lambda sentence: sentence.corrected)


def as_diff(document: Document, sentences: Iterable[SentenceCorrection]) -> Iterator[str]:
    """The text with every edit shown in its place: [-old-]{+new+}, or red and green."""
    return _woven(document, sentences, lambda sentence: _marked(sentence, document.colour))


def _woven(
    document: Document, sentences: Iterable[SentenceCorrection], show: Callable[[SentenceCorrection], str]
) -> Iterator[str]:
    """Sentences as `show` has them, with what lies between them as it was."""
    at = 0
    for sentence in sentences:
        yield document.text[at : sentence.start] + show(sentence)
        at = sentence.end
    yield document.text[at:]


def _marked(sentence: SentenceCorrection, colour: bool) -> str:
    old_open, old_close, new_open, new_close = (
        (RED, RESET, GREEN, RESET) if colour else ("[-", "-]", "{+", "+}")
    )
    parts: list[str] = []
    at = 0
    for edit in sentence.edits:
        old, new = edit.original, edit.replacement
        # Only the words are marked; the space in front of an added or removed word is not.
        pad = (new if not old else old if not new else "")[: _num_leading_spaces(old or new)]
        old, new = old.removeprefix(pad), new.removeprefix(pad)
        parts += (sentence.source[at : edit.start], pad)
        parts += (old_open, old, old_close) if old else ()
        parts += (new_open, new, new_close) if new else ()
        at = edit.end
    return "".join([*parts, sentence.source[at:]])


def _num_leading_spaces(text: str) -> int:
    return len(text) - len(text.lstrip())


def as_json(document: Document, sentences: Iterable[SentenceCorrection]) -> Iterator[str]:
    """One JSON object per sentence, one per line. Offsets are in characters (code points), ends exclusive:
    `start`, `end` of an edit in the sentence's `source`, `input_start`, `input_end` in the whole input."""
    for sentence in sentences:
        place = document.offset + sentence.start
        record = {
            "input": document.index,
            "start": place,
            "end": place + len(sentence.source),
            "source": sentence.source,
            "corrected": sentence.corrected,
            "edits": [_record(edit, place) for edit in sentence.edits],
            "warning": sentence.warning,
        }
        yield json.dumps(record, ensure_ascii=False) + "\n"


def _record(edit: Edit, place: int) -> dict[str, object]:
    return {
        "start": edit.start,
        "end": edit.end,
        "input_start": place + edit.start,
        "input_end": place + edit.end,
        "original": edit.original,
        "replacement": edit.replacement,
        "operation": edit.operation,
        "type": edit.type,
    }


def as_m2(document: Document, sentences: Iterable[SentenceCorrection]) -> Iterator[str]:
    """M2: a line of tokens, a line for each edit, an empty line. Edits of spacing alone have no place in M2."""
    for sentence in sentences:
        source = " ".join(token.text for token in tokenize(sentence.source))
        rows = [_m2_row(edit) for edit in sentence.edits if edit.original.strip() or edit.replacement.strip()]
        rows = rows or ["A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0"]
        yield "\n".join([f"S {source}", *rows]) + "\n\n"


def _m2_row(edit: Edit) -> str:
    start, end = edit.tokens
    replacement = " ".join(token.text for token in tokenize(edit.replacement))
    return f"A {start} {end}|||{edit.type}|||{replacement}|||REQUIRED|||-NONE-|||0"


FORMATS: dict[str, Format] = {"text": as_text, "json": as_json, "diff": as_diff, "m2": as_m2}
# Formats that give the input's characters back, so that an argument needs a line end behind it.
INLINE = frozenset({"text", "diff"})
