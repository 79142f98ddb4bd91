"""Where the sentences of a document are.

Knows lines, paragraphs, list markers, Markdown's code and tables, and sentences; does not know the model, except that a
piece must fit a budget that the caller counts. Everything is a span of the original text and nothing is copied or
cleaned, so what lies between two spans (blank lines, indentation, markers, code, line ends) can be put back byte for
byte.

A line break inside a paragraph is either a wrap, and the sentence goes on, or it means something (a heading, a
list, a verse). It counts as a wrap where the next word would not have fitted: every break of the paragraph passes
that test against its widest line, and that line is at least `WRAP_WIDTH` characters wide. A line of `SOFT_WIDTH` or
more also goes on where the next one begins in lower case. Everything else keeps its lines apart.
Boundaries inside a line are sentencex's (Wikimedia).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby, pairwise

Span = tuple[int, int]

WRAP_WIDTH = 60
SOFT_WIDTH = 40

_LINE = re.compile(r"([^\n\r\v\f\x85\u2028\u2029]*)(\r\n|[\n\r\v\f\x85\u2028\u2029]|\Z)")
# Indentation, quotation marks of mail, headings, bullets and numbers at the beginning of a line.
_MARKER = re.compile(r"(?:>|#{1,6}|[-*+•‣◦–—]|\(?\d{1,3}[.)]|\(?[a-z]\))(?=\s)")
_FINAL_MARKS = ".!?…:;,\"'”’)]"
_ROW = re.compile(r"\|.*\|")
# Code within backticks on one line is no fence; an item's or a quotation's may be one.
_FENCE = re.compile(r"(?:\s|>|[-*+](?=\s)|\d{1,3}[.)](?=\s))*(`{3,}(?=[^`]*$)|~{3,})")
# Indented like Markdown's code, and what half of such lines hold if they are code: calls, columns, arrows, names.
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)")
_CODE = re.compile(r"->|::|[={}|<>\u2500-\u257f]|\w\(|\w_\w|;\s*$|^\s*(?:\$|>>>) |[^\s.!?:] {2,}\S")
_OPEN_MARKS = ",;"
_SPACE = re.compile(r"[\s\ufeff]*")
_WORD = re.compile(r"\S+")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_BLOB = re.compile(r"\s*[!-~]{81,}\s*")
_CLAUSE_END = re.compile(r"[,;:)\]–—…]+[\"'”’]*\s+")
_SENTENCE_END = re.compile(r"[.!?]+[\"'”’)\]]*\s+")
_WHITESPACE = re.compile(r"\s")
_SURROGATE = re.compile("[\ud800-\udfff]")


def has_words(text: str) -> bool:
    """Whether there is anything to correct: two letters in a row, and not one endless "word" (an address, base64)."""
    return _LETTERS.search(text) is not None and _BLOB.fullmatch(text) is None


def sentences(text: str, language: str = "en") -> list[Span]:
    """Spans of the sentences of `text`, in order, without the whitespace and markers around them."""
    spans: list[Span] = []
    for block in _paragraphs(text):
        for start, end in _runs(text, block):
            spans.extend(_cut(text, start, end, language))
    return spans


def is_item(text: str, span: Span) -> bool:
    """Whether a span without a final mark stands behind the marker of a list, and so wants neither mark nor capital."""
    if _ends_bare(text, span) is None:
        return False
    lead = text[_line_start(text, span[0]) : span[0]].strip()
    return bool(lead) and _MARKER.match(lead + " ") is not None


def is_title(text: str, span: Span) -> bool:
    """Whether a span without a final mark is a heading or a name, and so wants none: in a text that holds more, a line
    between blank ones or of capitalised words only."""
    start, end = span
    follows = _ends_bare(text, span)
    if follows is None:
        return False
    begin = _line_start(text, start)
    if text[begin:start].strip():
        return False
    if strip(text, 0, start)[0] == start and not _goes_on(text, end):
        return False
    if all(word[0].isupper() for word in text[start:end].split()):
        return True
    above_end = begin - 2 if text[max(0, begin - 2) : begin] == "\r\n" else begin - 1
    above = text[_line_start(text, above_end) : above_end] if begin else ""
    below = _LINE.match(text, follows.end())
    return not above.strip() and (below is None or not below.group(1).strip())


def _ends_bare(text: str, span: Span) -> re.Match[str] | None:
    """What follows on the line of a span that ends it without a final mark; None for any other span."""
    if text[span[1] - 1] in _FINAL_MARKS:
        return None  # first of all: to look along a long line for each of its sentences takes long
    follows = _LINE.match(text, span[1])
    return None if follows is None or follows.group(1).strip() else follows


def leads_on(text: str, span: Span) -> bool:
    """Whether a span ends in a colon, or in a comma or semicolon and more text follows: a salutation, say."""
    last = text[slice(*span)].rstrip()[-1:]
    return last == ":" or (last in _OPEN_MARKS and _goes_on(text, span[1]))


def _goes_on(text: str, at: int) -> bool:
    return strip(text, at, len(text))[0] < len(text)


def _line_start(text: str, at: int) -> int:
    newline = text.rfind("\n", 0, at) + 1
    return max(newline, text.rfind("\r", newline, at) + 1)


def lines(text: str, start: int, end: int) -> list[Span]:
    """Spans of the lines of `text[start:end]`, stripped; empty ones are left out."""
    found: list[Span] = []
    for match in _LINE.finditer(text, start, end):
        span = strip(text, match.start(1), match.end(1))
        if span[0] < span[1]:
            found.append(span)
    return found


def strip(text: str, start: int, end: int) -> Span:
    """`[start, end)` without the whitespace at its ends."""
    while start < end and (text[start].isspace() or text[start] == "\ufeff"):
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


class _Line:
    """One line: its whole span, its content behind markers, and whether a marker stood there."""

    __slots__ = ("content", "end", "marked", "start")

    def __init__(self, text: str, start: int, end: int) -> None:
        self.start, self.end = start, end
        at = _space(text, start, end)
        self.marked = False
        while match := _MARKER.match(text, at, end):
            self.marked = True
            at = _space(text, match.end(), end)
        self.content = strip(text, at, end)


def _space(text: str, start: int, end: int) -> int:
    match = _SPACE.match(text, start, end)
    return match.end() if match else start


def _paragraphs(text: str) -> list[list[_Line]]:
    """Lines with content, grouped between blank ones, code and rows of tables."""
    blocks: list[list[_Line]] = []
    block: list[_Line] = []
    every = [_Line(text, *match.span(1)) for match in _LINE.finditer(text)]
    written = [text[line.start : line.end] for line in every]
    code = _fenced(written) | _indented(written)
    for number, line in enumerate(every):
        start, end = line.content
        if start < end and not _ROW.fullmatch(text, start, end) and number not in code:
            block.append(line)
        elif block:
            blocks.append(block)
            block = []
    return [*blocks, block] if block else blocks


def _fenced(lines: list[str]) -> set[int]:
    """The numbers of the lines of code between two of Markdown's fences, and of these; one alone fences nothing."""
    found: set[int] = set()
    opened, fence = -1, ""
    for number, line in enumerate(lines):
        mark = _FENCE.match(line)
        if mark and not fence:
            opened, fence = number, mark[1]
        elif mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
            found.update(range(opened, number + 1))
            fence = ""
    return found


def _indented(lines: list[str]) -> set[int]:
    """The numbers of the lines of code that is set off by its indentation, below a blank line or nothing."""
    found: set[int] = set()
    start = 0
    for is_indented, group in groupby(lines, key=lambda line: _INDENTED.match(line) is not None):
        block = list(group)
        is_apart = not start or not lines[start - 1].strip()
        is_apart &= _MARKER.match(block[0].strip()) is None  # not an item of a list, nor mail
        if is_indented and is_apart and 2 * sum(map(bool, map(_CODE.search, block))) >= len(block):
            found.update(range(start, start + len(block)))
        start += len(block)
    return found


def _runs(text: str, block: list[_Line]) -> list[Span]:
    """Join the wrapped lines of a paragraph."""
    width = max(line.content[1] - line.start for line in block)
    wrapped = width >= WRAP_WIDTH and all(
        below.marked or _overflows(text, above, below, width) for above, below in pairwise(block)
    )
    runs = [block[0].content]
    for above, below in pairwise(block):
        soft = above.content[1] - above.start >= SOFT_WIDTH and text[below.content[0]].islower()
        if not below.marked and (wrapped or soft):
            runs[-1] = (runs[-1][0], below.content[1])
        else:
            runs.append(below.content)
    return runs


def _overflows(text: str, above: _Line, below: _Line, width: int) -> bool:
    """Whether the first word of `below` would have made `above` wider than `width`."""
    word = _WORD.match(text, *below.content)
    assert word is not None, "a line with content begins with a word"
    return above.content[1] - above.start + 1 + len(word.group()) > width


def _cut(text: str, start: int, end: int, language: str) -> list[Span]:
    """Sentences of one run of joined lines."""
    spans: list[Span] = []
    at = start
    for length in _lengths(text[start:end], language):
        span = strip(text, at, at + length)
        if span[0] < span[1]:
            spans.append(span)
        at += length
    return spans


def _lengths(text: str, language: str) -> list[int]:
    """Lengths of consecutive sentences, adding up to the length of `text`."""
    try:
        import sentencex
    except ImportError as error:
        raise ImportError("sentences are found with sentencex: pip install 'echodraft[gec]'") from error
    # sentencex 1.0 panics where whitespace outside ASCII stands beside an initial ("A\u2028."), takes no lone
    # surrogates, and need not see line breaks that we know to be wraps. One character stays one character.
    plain = _SURROGATE.sub("x", _WHITESPACE.sub(" ", text))
    try:
        found = [len(piece) for piece in sentencex.segment(language, plain)]
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a Rust panic derives from BaseException
            raise
        found = []
    return found if sum(found) == len(text) else [len(text)]


def split_to_budget(text: str, start: int, end: int, count: Callable[[str], int], budget: int) -> list[Span]:
    """Cut `text[start:end]` into pieces that `count` at most `budget` tokens each.

    The cut is the last end of a sentence or clause in the second half of what fits, else the last whitespace, else
    anywhere between two characters. Spans come stripped; a single character over budget is a piece all the same.
    """
    pieces: list[Span] = []
    start, end = strip(text, start, end)
    while start < end:
        fits = _fitting(text, start, end, count, budget)
        cut = end if fits >= end else _best_cut(text, start, fits)
        piece = strip(text, start, cut)
        if piece[0] < piece[1]:
            pieces.append(piece)
        start, _ = strip(text, cut, end)
    return pieces


def _fitting(text: str, start: int, end: int, count: Callable[[str], int], budget: int) -> int:
    """A position up to which `text` fits the budget: not the farthest, but found in a few counts."""
    size = min(end - start, budget * 8)
    while size > 1:
        used = count(text[start : start + size])
        if used <= budget:
            break
        size = max(1, min(size - 1, size * budget // used))
    return start + size


def _best_cut(text: str, start: int, fits: int) -> int:
    """Where to cut `text[start:fits]` when more follows."""
    middle = start + (fits - start) // 2
    for pattern in (_SENTENCE_END, _CLAUSE_END):
        ends = [m.end() for m in pattern.finditer(text, middle, fits)]
        if ends:
            return ends[-1]
    for at in range(fits, start, -1):
        if text[at - 1].isspace() or text[at : at + 1].isspace():
            return at
    at = fits
    while at > start + 1 and _joins(text[at : at + 1], text[at - 1]):
        at -= 1
    return at


def _joins(char: str, before: str) -> bool:
    """Whether a cut between `before` and `char` would part one visible character."""
    is_mark = "\u0300" <= char <= "\u036f" or "\U0001f3fb" <= char <= "\U0001f3ff"
    return is_mark or char in "\u200d\ufe0e\ufe0f" or before == "\u200d"
