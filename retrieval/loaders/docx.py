"""Word documents (.docx) through python-docx: paragraphs, headings and tables in reading order.

Knows WordprocessingML's elements. Deleted text, comments, headers and footnotes are left out; inserted text, content
controls and text boxes, which python-docx's own `paragraph.text` leaves out, are in.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from docx import Document
from docx.opc.exceptions import OpcError
from docx.oxml.ns import qn

from .document import DAMAGE, DocumentBuilder, LoadedDocument, UnreadableFileError, storable

MAX_UNPACKED = 1 << 30  # bytes; a small file that unpacks to more is an attack, or no text
_OLE = b"\xd0\xcf\x11\xe0"  # password-protected documents, and .doc under another name
_PARAGRAPH, _TABLE, _ROW, _CELL = qn("w:p"), qn("w:tbl"), qn("w:tr"), qn("w:tc")
_TEXT, _TAB, _BREAKS, _HYPHEN = qn("w:t"), qn("w:tab"), (qn("w:br"), qn("w:cr")), qn("w:noBreakHyphen")
# What is shown already, once more for older programs.
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_NOT_SHOWN = frozenset((qn("w:del"), qn("w:moveFrom"), qn("w:pPr"), qn("w:rPr"), _FALLBACK))


def load_docx(content: bytes, name: str) -> LoadedDocument:
    """The title is the one in the document's properties, else the first heading, else the file's name."""
    if content.startswith(_OLE):
        raise UnreadableFileError("it is encrypted, or an old .doc; save it as .docx without a password")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        if unpacked > MAX_UNPACKED:
            raise UnreadableFileError(f"it unpacks to {unpacked >> 20} MB, more than {MAX_UNPACKED >> 20} MB")
        document = Document(io.BytesIO(content))
        title = document.core_properties.title.strip()
        return _read(document, title, name)
    except UnreadableFileError:
        raise
    except (zipfile.BadZipFile, OpcError, *DAMAGE) as error:
        raise UnreadableFileError(f"it is no readable .docx ({type(error).__name__}: {error})") from error


def _read(document: Any, title: str, name: str) -> LoadedDocument:
    builder = DocumentBuilder()
    levels = _heading_levels(document)
    for block in _blocks(document.element.body):
        if block.tag == _TABLE:
            _add_table(builder, block)
        else:
            _add_paragraph(builder, block, levels)
    return builder.document(title or builder.first_heading or name)


def _blocks(parent: Any) -> Iterator[Any]:
    """Paragraphs and tables in order, also those inside content controls and insertions."""
    for child in parent:
        if child.tag in (_PARAGRAPH, _TABLE):
            yield child
        elif child.tag not in _NOT_SHOWN:
            yield from _blocks(child)


def _add_paragraph(builder: DocumentBuilder, paragraph: Any, levels: dict[str, int]) -> None:
    text = storable(_text(paragraph)).strip()
    style = paragraph.find(f"{qn('w:pPr')}/{qn('w:pStyle')}")
    level = levels.get(style.get(qn("w:val"))) if style is not None else None
    if level is None:
        builder.block(text)
    else:
        builder.heading(level, " ".join(text.split()))


def _add_table(builder: DocumentBuilder, table: Any) -> None:
    """A line per row, " | " between cells."""
    for row in _nearest(table, _ROW, _TABLE):
        cells = [" ".join(storable(_text(cell)).split()) for cell in _nearest(row, _CELL, _ROW)]
        builder.block(" | ".join(cells) if any(cells) else "", "\n")


def _nearest(parent: Any, tag: str, parent_tag: str) -> Iterator[Any]:
    """The elements of `tag` that belong to this parent and not to one inside it (tables in tables)."""
    return (found for found in parent.iter(tag) if next(found.iterancestors(parent_tag)) is parent)


def _text(element: Any) -> str:
    """The text that is shown of a paragraph or cell; paragraphs inside it end a line."""
    pieces: list[str] = []
    stack: list[Any] = [*reversed(element)]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            pieces.append(node)
        elif node.tag == _TEXT:
            pieces.append(node.text or "")
        elif node.tag == _TAB:
            pieces.append("\t")
        elif node.tag == _HYPHEN:
            pieces.append("-")
        elif node.tag in _BREAKS:
            pieces.append("\n")
        elif node.tag not in _NOT_SHOWN:
            stack += ["\n"] if node.tag == _PARAGRAPH else []
            stack.extend(reversed(node))
    return "".join(pieces)


def _heading_levels(document: Any) -> dict[str, int]:
    """Style id to level: Title is 1, Heading 1 is 1, ... and styles that are based on one of them."""
    levels: dict[str, int] = {}
    for style in document.styles:
        ancestor, seen = style, 0
        while ancestor is not None and seen < 20:
            name = str(ancestor.name or "").lower()
            if name == "title" or (name.startswith("heading ") and name[8:].isdigit()):
                levels[style.style_id] = 1 if name == "title" else int(name[8:])
                break
            ancestor, seen = getattr(ancestor, "base_style", None), seen + 1
    return levels
