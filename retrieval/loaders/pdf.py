"""PDF through pypdf: text page by page.

Knows pages and encryption. Does not know layout: columns and tables come in the order in which the file draws them,
and scanned pages have no text.
"""

from __future__ import annotations

import io
import re
from itertools import accumulate

from pypdf import PdfReader
from pypdf.errors import DependencyError, DeprecationError, PyPdfError

from .document import DAMAGE, LoadedDocument, Section, UnreadableFileError, storable

_GAP = "\n\n"
_MADE_BY = re.compile(r"(microsoft word|untitled|powerpoint)\b|.*\.(docx?|tex|dvi|indd|pdf)$", re.IGNORECASE)


def load_pdf(content: bytes, name: str) -> LoadedDocument:
    """The title is the one in the file's properties, unless a program put it there, else the file's name."""
    try:
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableFileError("it is encrypted; save a copy without a password")
        pages = [storable(page.extract_text()).rstrip() for page in reader.pages]
        title = " ".join(storable(str((reader.metadata and reader.metadata.title) or "")).split())
    except UnreadableFileError:
        raise
    except DependencyError as error:
        raise UnreadableFileError(f"it is encrypted ({error}); pip install 'echodraft[documents]'") from error
    except (PyPdfError, DeprecationError, *DAMAGE) as error:
        raise UnreadableFileError(f"it is no readable PDF ({type(error).__name__}: {error})") from error
    if not any(page.strip() for page in pages):
        raise UnreadableFileError("it has no text (scanned pages?); run text recognition over it first")
    text = _GAP.join(pages)
    starts = tuple(accumulate((len(page) + len(_GAP) for page in pages[:-1]), initial=0))
    title = name if _MADE_BY.match(title) else title or name
    return LoadedDocument(text, title, (Section(0, 0, len(text)),), starts)
