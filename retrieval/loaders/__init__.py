"""From a file to its text with headings, pages and offsets: one module per format.

Knows which suffix is which format and which library reads it; the libraries are imported when a file needs them.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from .document import LoadedDocument, Section, UnreadableFileError

# Suffix to (module, function). A new format is one file and one line.
LOADERS = {
    ".txt": ("text", "load_text"),
    ".text": ("text", "load_text"),
    ".rst": ("text", "load_text"),
    ".md": ("markdown", "load_markdown"),
    ".markdown": ("markdown", "load_markdown"),
    ".html": ("html", "load_html"),
    ".htm": ("html", "load_html"),
    ".xhtml": ("html", "load_html"),
    ".pdf": ("pdf", "load_pdf"),
    ".docx": ("docx", "load_docx"),
}
PACKED = {".pdf", ".docx"}  # pictures and fonts are in these
MAX_TEXT_BYTES = 50 << 20
MAX_PACKED_BYTES = 500 << 20
# Raised with what a change of a loader or of the chunker changes, so that indexes read their files again.
LOADERS_VERSION = 2

__all__ = [
    "LOADERS",
    "LOADERS_VERSION",
    "LoadedDocument",
    "Section",
    "UnreadableFileError",
    "load",
    "parse",
    "read",
]


def load(path: str | Path) -> LoadedDocument:
    """The text of a file and where its headings and pages are.

    Raises UnreadableFileError for what has no text to give, OSError for what cannot be opened, ImportError naming
    the extra for a format whose library is not installed.
    """
    return parse(read(path), path)


def read(path: str | Path) -> bytes:
    """The bytes of a file of a known format; sizes and kinds are looked at before anything is opened."""
    path = Path(path)
    loader_of(path)
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableFileError("it is no regular file")
    limit = MAX_PACKED_BYTES if path.suffix.lower() in PACKED else MAX_TEXT_BYTES
    if status.st_size > limit:
        raise UnreadableFileError(f"it has {status.st_size >> 20} MB, more than {limit >> 20} MB; split it")
    return path.read_bytes()


def parse(content: bytes, path: str | Path) -> LoadedDocument:
    """The document in these bytes, which `path` is only the name of."""
    return loader_of(Path(path))(content, Path(path).stem)


def loader_of(path: Path) -> Callable[[bytes, str], LoadedDocument]:
    """The function that reads files of this name. Raises as `load`."""
    suffix = path.suffix.lower()
    if suffix not in LOADERS:
        raise UnreadableFileError(f"{suffix or 'a name without suffix'} is not a format that is read")
    module, function = LOADERS[suffix]
    try:
        loader: Callable[[bytes, str], LoadedDocument] = getattr(
            import_module(f".{module}", __name__), function
        )
    except ImportError as error:
        raise ImportError(f"{suffix} files need {error.name}: pip install 'echodraft[documents]'") from error
    return loader
