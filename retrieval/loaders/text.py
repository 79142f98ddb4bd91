"""Plain text: UTF-8, with or without a byte order mark, line ends as Python reads them.

Knows bytes and characters. Does not guess encodings: a wrong guess is found out by the person who reads the answer.
"""

from __future__ import annotations

import codecs

from .document import LoadedDocument, UnreadableFileError

_OTHER_MARKS = {codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF32_BE: "UTF-32"} | {
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_SNIFFED = 8192


def load_text(content: bytes, name: str) -> LoadedDocument:
    """The text is what `Path.read_text(encoding="utf-8-sig")` gives; the title is the file's name."""
    return LoadedDocument.plain(decode(content), name)


def decode(content: bytes, encoding: str = "utf-8") -> str:
    """Bytes to text with "\\n" for every line end. Raises UnreadableFileError with the offset of the bad byte."""
    for mark, found in _OTHER_MARKS.items():
        if content.startswith(mark):
            raise UnreadableFileError(f"it is {found}; save it as UTF-8")
    if b"\0" in content[:_SNIFFED]:
        raise UnreadableFileError("it is binary, not text")
    skipped = len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0
    try:
        text = content[skipped:].decode("utf-8" if skipped else encoding)
    except UnicodeDecodeError as error:
        offset = error.start + skipped
        raise UnreadableFileError(
            f"it is not {error.encoding.upper()}: byte 0x{content[offset]:02x} at offset {offset}; save it as UTF-8"
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
