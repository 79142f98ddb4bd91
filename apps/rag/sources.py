"""A retrieved passage as the chat shows, numbers and cites it.

Knows the metadata that `retrieval` keeps with a passage. Does not know how passages are found.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any

from langchain_core.documents import Document

from .prompts import Passage


@dataclass(frozen=True)
class Source:
    """One passage with where it stands. `start` and `end` are character offsets in the document's text, where
    known; `score` is the retriever's own (higher is better), None where it gives none."""

    text: str
    document: str = ""
    title: str = ""
    heading: str = ""
    page: int | None = None
    start: int | None = None
    end: int | None = None
    score: float | None = None
    id: str | None = None

    @classmethod
    def of(cls, document: Document, score: float | None = None) -> Source:
        """From a LangChain document with the metadata that the folder index writes; other documents do as well."""
        known = document.metadata
        start = _number(known.get("start", known.get("start_index")))
        end = _number(known.get("end"))
        if start is not None and end is None:
            end = start + len(document.page_content)
        heading = known.get("heading") or ""
        return cls(
            text=document.page_content,
            document=str(known.get("source") or known.get("document") or ""),
            title=str(known.get("title") or ""),
            heading=heading if isinstance(heading, str) else " > ".join(map(str, heading)),
            page=_number(known.get("page")),
            start=start,
            end=end,
            score=score if score is not None else known.get("score"),
            id=document.id,
        )

    @property
    def passage(self) -> Passage:
        """As the model reads it: document and innermost heading are enough of a title, and are not read twice."""
        name = self.title or PurePath(self.document).stem
        heading = self.heading.split(" > ")[-1]
        parts = dict.fromkeys(part for part in (name, heading) if part)
        line, _, rest = self.text.partition("\n")
        is_repeated = heading and line.strip("# ") == heading and rest.strip()
        return Passage(": ".join(parts), rest.lstrip("\n") if is_repeated else self.text)

    @property
    def place(self) -> str:
        """Document, then heading or page, then offsets: `guide.md, Batches, characters 120 to 480`."""
        parts = [_shown(self.document) or self.title or "(no name)"]
        if self.heading:
            parts.append(self.heading)
        if self.page is not None:
            parts.append(f"page {self.page}")
        if self.start is not None and self.end is not None:
            parts.append(f"characters {self.start} to {self.end}")
        return ", ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def _shown(document: str) -> str:
    """The path as people say it: from the working directory if it is below, else its name (JSON has it all)."""
    path = PurePath(document)
    if not path.is_absolute():
        return document
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else path.name


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
