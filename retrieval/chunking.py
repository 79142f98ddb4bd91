"""Documents into passages of at most so many tokens, each with its place in the text.

Knows sections, tokens and offsets; where to cut is langchain-text-splitters' work. Does not know files or stores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

from .loaders.document import LoadedDocument, Section
from .token_counting import TokenCounter, approximate_tokens

# Cuts, the most wanted first: paragraphs, sentences, lines, clauses, words, letters. The blanks stay with what they
# follow, so that the pieces together are the text.
CUTS = [r"\n\s*\n", r"(?<=[.!?…])\s+|(?<=[。！？])", r"\n", r"(?<=[,;:])\s+", r"\s+", ""]
# Blanks cost no tokens and a line of base64 may be a single unknown one: this bounds a passage in letters too.
MAX_CHARACTERS_PER_TOKEN = 8
_WORD = re.compile(r"\S+")
_SENTENCE_END = re.compile(r"[.!?…。！？]\s*\Z")


@dataclass(frozen=True)
class ChunkConfig:
    """Passages have at most `max_tokens`; from one cut to the next up to `overlap` of them are repeated."""

    max_tokens: int = 200
    overlap: int = 20

    def __post_init__(self) -> None:
        if self.max_tokens < 8:
            raise ValueError(
                f"max_tokens={self.max_tokens} is too few for a passage; use at least 8, 200 is usual"
            )
        if not 0 <= self.overlap <= self.max_tokens // 2:
            raise ValueError(
                f"overlap={self.overlap} must be between 0 and half of max_tokens={self.max_tokens}"
            )


@dataclass(frozen=True)
class Passage:
    """`text` is the document's text from `start` to `end`; pages count from 1, passages (`number`) from 0."""

    text: str
    start: int
    end: int
    number: int
    headings: tuple[str, ...] = ()
    page: int | None = None
    last_page: int | None = None


def passages(
    document: LoadedDocument, config: ChunkConfig | None = None, count: TokenCounter = approximate_tokens
) -> list[Passage]:
    """The passages of a document in reading order. None runs over a heading; each ends where its text does, without
    blanks at either end. A heading with nothing under it goes with the passage that follows."""
    config = config or ChunkConfig()
    cutter = _Cutter(config, count)
    found: list[Passage] = []
    for section in _with_lone_headings_joined(document):
        for start, end in cutter.spans(document.text, section.start, section.end):
            pages = document.page_at(start), document.page_at(end - 1)
            found.append(Passage(document.text[start:end], start, end, len(found), section.headings, *pages))
    return found


def _with_lone_headings_joined(document: LoadedDocument) -> Iterator[Section]:
    begun: int | None = None
    for section, following in pairwise([*document.sections, None]):
        assert section is not None
        start = section.start if begun is None else begun
        lone = bool(section.headings) and not document.text[section.body : section.end].strip()
        begun = start if lone and following is not None else None
        if begun is None:
            yield Section(start, section.body, section.end, section.headings)


class _Cutter:
    """Cuts stretches of text; offsets are exact because the splitter's pieces, blanks kept, join to the text."""

    def __init__(self, config: ChunkConfig, count: TokenCounter) -> None:
        try:
            from langchain_text_splitters import RecursiveCharacterTextSplitter
        except ImportError as error:
            raise ImportError(
                f"documents are cut with {error.name}: pip install 'echodraft[documents]'"
            ) from error
        self._config = config
        self._count = lru_cache(maxsize=8192)(count)  # the splitter asks up to three times
        self._splitter = RecursiveCharacterTextSplitter(
            separators=CUTS,
            is_separator_regex=True,
            keep_separator="end",
            strip_whitespace=False,
            chunk_size=config.max_tokens - config.overlap,
            chunk_overlap=0,
            length_function=self._length,
        )

    def spans(self, text: str, start: int, end: int) -> list[tuple[int, int]]:
        """Stretches [start, end) of passages, blanks at their ends left out."""
        if self._length(text[start:end].strip()) <= self._config.max_tokens:
            pieces = [text[start:end]]
        else:
            pieces = self._splitter.split_text(text[start:end])
        edges = list(accumulate(map(len, pieces), initial=start))
        assert edges[-1] == end
        cuts = [cut for span in pairwise(edges) for cut in self._fitting(text, *span)]
        return [
            (self._reaching_back(text, cuts[i - 1][0] + 1, *cut) if i else cut[0], cut[1])
            for i, cut in enumerate(cuts)
        ]

    def _length(self, text: str) -> int:
        """Tokens, or the letters' bound where that is larger; long texts are not tokenized to know they are long."""
        by_letters = -(-len(text) // MAX_CHARACTERS_PER_TOKEN)
        return by_letters if by_letters > self._config.max_tokens else max(by_letters, self._count(text))

    def _fitting(self, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The span without blanks at its ends; in halves where its tokens are more than its parts' together."""
        stretch = text[start:end]
        start, end = start + len(stretch) - len(stretch.lstrip()), start + len(stretch.rstrip())
        if start >= end:
            return
        if self._length(text[start:end]) <= self._config.max_tokens or end - start < 2:
            yield start, end
        else:
            middle = (start + end) // 2
            yield from self._fitting(text, start, middle)
            yield from self._fitting(text, middle, end)

    def _reaching_back(self, text: str, earliest: int, start: int, end: int) -> int:
        """Where the passage begins with the overlap: at a sentence if one begins there, else at a word."""
        reach = max(earliest, start - self._config.overlap * MAX_CHARACTERS_PER_TOKEN)
        begins = [reach + word.start() for word in _WORD.finditer(text[reach:start])]
        if begins and begins[0] == reach and reach and not text[reach - 1].isspace():
            del begins[0]  # the end of a word
        fitting = []
        for begin in reversed(begins):
            if self._length(text[begin:start]) > self._config.overlap:
                break
            if self._length(text[begin:end]) > self._config.max_tokens:
                break
            fitting.append(begin)
        sentences = [begin for begin in fitting if _SENTENCE_END.search(text[reach:begin])]
        return min(sentences or fitting, default=start)
