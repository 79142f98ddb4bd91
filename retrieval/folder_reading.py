"""Brings an index's records up to date with the files they are of: only what changed is read again.

Knows files, loaders, the chunker and the records. Does not know searches or embeddings.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from langchain_core.documents import Document

from .chunking import ChunkConfig, Passage, passages
from .discovery import Skipped
from .document_records import DocumentRecords, FileRecord
from .ids import content_id
from .loaders import LOADERS_VERSION, LoadedDocument, UnreadableFileError, parse, read
from .token_counting import TokenCounter

# Committed together; a kill loses the reading of no more.
FILES_PER_COMMIT = 32
# A file changed within this time of its reading may have changed again without its times telling (as in git).
RACY_NANOSECONDS = 2_000_000_000


@dataclass(frozen=True)
class Recipe:
    """What turns a file's bytes into passages; files that were cut by another one are read again."""

    config: ChunkConfig
    count: TokenCounter
    counter_name: str

    @property
    def name(self) -> str:
        return f"{LOADERS_VERSION} {self.config.max_tokens} {self.config.overlap} {self.counter_name}"


class FolderReader:
    """Reads files into records and remembers what could not be read."""

    def __init__(self, records: DocumentRecords, recipe: Recipe) -> None:
        self.records = records
        self.recipe = recipe
        self.skipped: list[Skipped] = []

    def read(self, files: Sequence[Path], progress: Callable[[int, Path], None]) -> None:
        """Records every file that is new or changed; `progress` hears how many files are done, and the next."""
        known = self.records.files()
        for start in range(0, len(files), FILES_PER_COMMIT):
            with self.records.change():
                for offset, path in enumerate(files[start : start + FILES_PER_COMMIT]):
                    progress(start + offset, path)
                    self._read_one(path, known.get(str(path)))

    def _read_one(self, path: Path, known: FileRecord | None) -> None:
        now = time.time_ns()
        if known is not None and known.recipe != self.recipe.name:
            known = None
        try:
            status = path.stat()
            stamp = (status.st_size, status.st_mtime_ns)
            if (
                known
                and stamp == (known.size, known.modified)
                and known.modified + RACY_NANOSECONDS < known.read_at
            ):
                return self._note(known)
            content = read(path)
        except (UnreadableFileError, OSError, ImportError) as error:
            return self._drop(path, error)
        digest = hashlib.sha256(path.suffix.lower().encode() + b"\0" + content).hexdigest()
        if known and digest == known.digest:
            self.records.touch(str(path), *stamp, now)
            return self._note(known)
        file = FileRecord(str(path), *stamp, now, digest, self.recipe.name)
        return self._parse(file, path, content)

    def _parse(self, file: FileRecord, path: Path, content: bytes) -> None:
        reason, found = "", list[Document]()
        try:
            document = parse(content, path)
            cut = passages(document, self.recipe.config, self.recipe.count)
            found = [as_document(passage, document, file.path) for passage in cut]
            reason = "" if found else "it has no text" if content else "it is empty"
        except UnreadableFileError as error:
            reason = str(error)
        file = replace(file, reason=reason)
        self.records.put(file, found)
        self._note(file)

    def _drop(self, path: Path, error: Exception) -> None:
        """What cannot be opened now is looked at again next time, so nothing is recorded of it."""
        self.records.remove(str(path))
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        self.skipped.append(Skipped(str(path), reason))

    def _note(self, file: FileRecord) -> None:
        if file.reason:
            self.skipped.append(Skipped(file.path, file.reason))


def as_document(passage: Passage, document: LoadedDocument, source: str) -> Document:
    """A passage as LangChain has it. Metadata: source (path), title, heading ("A > B"), page, last_page (where it
    runs over), start and end (characters of the extracted text), chunk (from 0). Absent means there is none."""
    metadata: dict[str, str | int] = {"source": source, "title": document.title}
    if passage.headings:
        metadata["heading"] = " > ".join(passage.headings)
    if passage.page is not None:
        metadata["page"] = passage.page
        if passage.last_page is not None and passage.last_page != passage.page:
            metadata["last_page"] = passage.last_page
    metadata |= {"start": passage.start, "end": passage.end, "chunk": passage.number}
    return Document(id=content_id(passage.text, metadata), page_content=passage.text, metadata=metadata)
