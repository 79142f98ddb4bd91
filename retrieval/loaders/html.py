"""HTML: what a reader sees of it, block by block.

Knows elements and declared encodings; BeautifulSoup parses. Navigation, scripts and hidden elements are left out; of
a page with one `<main>` only that is taken.
"""

from __future__ import annotations

import codecs
from typing import Any

from bs4 import BeautifulSoup, NavigableString, Tag
from bs4.dammit import EncodingDetector
from bs4.exceptions import ParserRejectedMarkup

from .document import DAMAGE, DocumentBuilder, LoadedDocument, UnreadableFileError
from .text import decode

# fmt: off
LEFT_OUT = frozenset((
    "script", "style", "noscript", "template", "nav", "footer", "svg", "math", "head", "iframe", "object", "select",
    "button", "textarea",
))
LINES = frozenset(("li", "tr", "dt", "dd"))
PARAGRAPHS = frozenset((
    "address", "article", "aside", "blockquote", "body", "caption", "center", "details", "div", "dl", "fieldset",
    "figcaption", "figure", "form", "header", "hr", "main", "ol", "p", "pre", "section", "summary", "table", "tbody",
    "tfoot", "thead", "ul",
))
# fmt: on
HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
CELLS = frozenset(("td", "th"))
_PERMALINKS = " ¶#\N{LINK SYMBOL}"


def load_html(content: bytes, name: str) -> LoadedDocument:
    """The title is `<title>`, else the first heading, else the file's name."""
    try:
        soup = BeautifulSoup(_decoded(content), "html.parser")
    except UnreadableFileError:
        raise
    except (ParserRejectedMarkup, *DAMAGE) as error:
        raise UnreadableFileError(f"it is no readable HTML ({type(error).__name__}: {error})") from error
    title = _collapsed(soup.title.get_text()) if soup.title else ""
    mains = soup.find_all("main") or soup.find_all(role="main")
    reader = _Reader()
    reader.read(mains[0] if len(mains) == 1 else soup)
    return reader.builder.document(title or reader.builder.first_heading or name)


class _Reader:
    """Walks the tree without recursion, for pages that nest deeper than Python's stack."""

    def __init__(self) -> None:
        self.builder = DocumentBuilder()
        self._line: list[str] = []
        self._preformatted = 0

    def read(self, root: Tag) -> None:
        stack: list[tuple[Any, bool]] = [(root, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                self._leave(node)
            elif isinstance(node, Tag):
                if self._enter(node):
                    stack.append((node, True))
                    stack.extend((child, False) for child in reversed(node.contents))
            elif type(node) is NavigableString:  # comments, doctypes and script bodies are subclasses
                self._line.append(str(node))
        self._flush()

    def _enter(self, tag: Tag) -> bool:
        """Whether the element's children are to be read."""
        if tag.name in LEFT_OUT or "hidden" in tag.attrs:
            return False
        if tag.name in HEADINGS:
            self._flush()
            self.builder.heading(int(tag.name[1]), _collapsed(tag.get_text()).rstrip(_PERMALINKS))
            return False
        if tag.name in PARAGRAPHS or tag.name in LINES:
            if _collapsed("".join(self._line)) != "-":  # a paragraph that begins a list entry
                self._flush()
            self._line += ["- "] if tag.name == "li" else []
            self._preformatted += tag.name == "pre"
        elif tag.name in CELLS and "".join(self._line).strip():
            self._line.append(" | ")
        elif tag.name == "br":
            self._flush("\n")
        return True

    def _leave(self, tag: Tag) -> None:
        if tag.name in PARAGRAPHS or tag.name in LINES:
            self._flush("\n" if tag.name in LINES else "\n\n")
            self._preformatted -= tag.name == "pre"

    def _flush(self, gap: str = "\n\n") -> None:
        text = "".join(self._line)
        shown = text.strip("\n").rstrip() if self._preformatted else _collapsed(text)
        if shown not in ("-", "|"):  # an empty list entry or row
            self.builder.block(shown, gap)
        self._line = []


def _decoded(content: bytes) -> str:
    """By byte order mark, else as the page declares, else UTF-8."""
    declared = EncodingDetector.find_declared_encoding(content, is_html=True) or "utf-8"
    try:
        name = codecs.lookup(declared).name
    except LookupError:
        name = "utf-8"
    if name in ("iso8859-1", "ascii"):
        # What browsers read it as; the few bytes that Windows-1252 leaves open are Latin-1's control characters.
        try:
            return decode(content, "cp1252")
        except UnreadableFileError:
            return decode(content, "latin-1")
    return decode(content, name)


def _collapsed(text: str) -> str:
    return " ".join(text.split())
