"""Markdown: the text as it stands, its headings found by markdown-it.

Knows headings and front matter. Does not render anything: offsets are those of the file's own text.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from .document import LoadedDocument, sections
from .text import decode

# It is empty or begins with "name:"; a rule with text or a heading below it is none.
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?:(?=[\w-]+:\s)(.*?\n))?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE_LINE = re.compile(r"^title:[ \t]*(.+?)[ \t]*$", re.MULTILINE | re.IGNORECASE)


def load_markdown(content: bytes, name: str) -> LoadedDocument:
    """The title is the front matter's, else the first heading of the first level, else the file's name."""
    text = decode(content)
    front = _FRONT_MATTER.match(text)
    body = front.end() if front else 0
    marks, title = _headings(text, body)
    declared = _TITLE_LINE.search(front.group(0)) if front else None
    if declared:
        title = declared.group(1).strip("\"'")
    return LoadedDocument(text, title or name, sections(marks, len(text)))


def _headings(text: str, body: int) -> tuple[list[tuple[int, int, tuple[str, ...]]], str]:
    """Marks of (start, body, headings) from `body` on, and the first heading of the first level or ""."""
    parser = MarkdownIt("commonmark")
    parser.core.ruler.disable(["inline", "text_join"])  # only blocks matter, and these take most of the time
    lines = [body, *accumulate((len(line) + 1 for line in text[body:].split("\n")), initial=body)][1:]
    marks: list[tuple[int, int, tuple[str, ...]]] = [(body, body, ())]
    path: list[tuple[int, str]] = []
    title = ""
    tokens = parser.parse(text[body:])
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open" or opening.level or opening.map is None:
            continue  # headings in quotes and lists structure nothing
        level, name = int(opening.tag[1:]), _plain(inline)
        path = [(outer, outer_name) for outer, outer_name in path if outer < level] + [(level, name)]
        first, behind = (min(lines[number], len(text)) for number in opening.map)
        marks.append((first, behind, tuple(heading for _, heading in path if heading)))
        title = title or (name if level == 1 else "")
    return marks, title


def _plain(inline: Token) -> str:
    """A heading without its emphasis, code marks and link targets."""
    parsed = MarkdownIt("commonmark").parseInline(inline.content)[0]
    shown = [child.content for child in parsed.children or () if child.type in ("text", "code_inline")]
    return " ".join("".join(shown).split())
