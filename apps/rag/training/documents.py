"""Passages to read and to quote from: where they lie, how they are cut into sentences, which are kept out.

Packed once into one JSONL file of `{"group", "title", "sentences"}`; a group is a document or a project, and
passages of one group serve as each other's distractors.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

# Share of the passages drawn, by kind of text.
SHARES = {"peps": 0.14, "cppdocs": 0.14, "tldr": 0.03, "docs": 0.27, "gov": 0.16, "wiki": 0.14, "books": 0.12}
_LINES = {
    "docs": ("docs_prose/*.txt.gz",),
    "gov": ("gov_blogs/*.txt.gz",),
    "wiki": ("xquad_en.txt.gz", "onestopenglish.txt.gz", "nltk_public_domain_*.txt.gz", "wiki_split.txt.gz"),
    "books": ("standardebooks/*.txt.gz",),
}
# WikiSplit gives each sentence twice, once whole and once split; the whole one is enough.
_EVERY_OTHER = "wiki_split"
_MOST = 9_000
_BOUNDARY = re.compile(r"(?<=[.!?])(['\"”’)\]]*)\s+(?=['\"“‘(\[`*]?[A-Z0-9])")
_SHORT = re.compile(
    r"(?:^|\W)(?:mr|mrs|ms|dr|st|prof|vs|etc|e\.g|i\.e|no|fig|inc|ltd|co|corp|gen|col|u\.s|\w)\.$", re.I
)
_QUOTABLE = re.compile(r"^[\"'“(`*]?[A-Z0-9].*[.!?][\"'”)`*]?$")


def split_sentences(text: str) -> list[str]:
    """Text cut into sentences, simply: a mark, then a capital, and no known abbreviation before."""
    out: list[str] = []
    start = 0
    for match in _BOUNDARY.finditer(text):
        # Only the last word can be an abbreviation; looking further back makes long texts slow.
        if _SHORT.search(text[max(start, match.start() - 8) : match.start()]):
            continue
        out.append(text[start : match.end()].rstrip())
        start = match.end()
    out.append(text[start:].strip())
    return [sentence for sentence in out if sentence]


def is_quotable(sentence: str) -> bool:
    """Whether a sentence may be an answer: whole, of fair length, mostly letters."""
    words = sentence.count(" ") + 1
    if not 5 <= words <= 45 or len(sentence) > 300 or not _QUOTABLE.match(sentence):
        return False
    return sum(c.isalpha() or c == " " for c in sentence) >= 0.8 * len(sentence)


@dataclass(frozen=True)
class Asked:
    """A question, the place of the sentence that answers it (None: nothing does), and short gold answers."""

    question: str
    sentence: int | None
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Document:
    """A passage in sentences, with the questions that people asked about it, if any."""

    group: str
    title: str
    sentences: tuple[str, ...]
    asked: tuple[Asked, ...] = field(default=())

    @property
    def text(self) -> str:
        """The passage as one paragraph."""
        return " ".join(self.sentences)


def _thinned(lines: list[str]) -> list[str]:
    """At most so many, evenly spaced."""
    step = max(1.0, len(lines) / _MOST)
    return [lines[int(k * step)] for k in range(int(len(lines) / step))]


def _passages(path: Path) -> Iterator[Document]:
    with gzip.open(path, "rt", encoding="utf-8") as rows:
        for line in _thinned(list(rows)):
            row = json.loads(line)
            text = re.sub(r"<[^>]{1,60}>|\{\{|\}\}|^#\s+\S+\s+|\[\d+\]", " ", row["text"])
            sentences = split_sentences(" ".join(text.split()))
            yield Document(row["id"].split("#")[0], row["title"], tuple(sentences))


def _paragraphs(path: Path) -> Iterator[Document]:
    """Consecutive lines of a file, gathered to passages of 40 to 110 words."""
    name = path.name.removesuffix(".txt.gz").replace("+", " ").replace("_", " ").replace("-", " ")
    gathered: list[str] = []
    words = 0
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if _EVERY_OTHER in path.name and number % 2 == 0:
                continue
            for sentence in split_sentences(" ".join(line.split())):
                gathered.append(sentence)
                words += sentence.count(" ") + 1
            if words >= 60:
                yield Document(path.name, name, tuple(gathered))
                gathered, words = [], 0


def _sound(document: Document) -> bool:
    """Whether a passage is prose of a length worth reading."""
    text = document.text
    letters = sum(c.isalpha() or c == " " for c in text)
    quotable = sum(map(is_quotable, document.sentences))
    return quotable >= 2 and 150 <= len(text) <= 900 and letters >= 0.8 * len(text)


def pack_documents(data: Path, out: Path) -> dict[str, int]:
    """Writes one JSONL file per kind into `out`; returns how many passages each has."""
    out.mkdir(parents=True, exist_ok=True)
    counts: dict[str, int] = {}
    for kind in SHARES:
        found: list[Document] = []
        if kind in _LINES:
            paths = [p for pattern in _LINES[kind] for p in sorted((data / "text").glob(pattern))]
            for path in paths:
                found += islice(filter(_sound, _paragraphs(path)), _MOST // len(paths) + 1)
        elif (data / "passages" / f"{kind}.jsonl.gz").exists():
            found += filter(_sound, _passages(data / "passages" / f"{kind}.jsonl.gz"))
        with (out / f"{kind}.jsonl").open("w", encoding="utf-8") as file:
            for d in found:
                row = {"group": d.group, "title": d.title, "sentences": d.sentences}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        counts[kind] = len(found)
    if not any(counts.values()):
        raise FileNotFoundError(f"no passages under {data}: give the folder that holds text/ and passages/")
    (out / "counts.json").write_text(json.dumps(counts, indent=1))
    return counts


def load_documents(folder: Path) -> dict[str, list[Document]]:
    """What `pack_documents` wrote, by kind; kinds without a passage are left out."""
    found: dict[str, list[Document]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as rows:
            read = [json.loads(row) for row in rows]
        if read:
            found[path.stem] = [Document(r["group"], r["title"], tuple(r["sentences"])) for r in read]
    return found


def need_data(data: Path) -> Path:
    """The data folder, or an error that says what is missing and how to name another."""
    for part in ("text", "passages"):
        if not (data / part).is_dir():
            raise FileNotFoundError(
                f"no training text at {data / part}: give the folder that holds text/, passages/ and qa/ "
                "with --data DIR"
            )
    return data
