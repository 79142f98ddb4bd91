"""One text that is being written: its tokens, its document, and the guesses that nobody has checked yet.

Knows token ids and passage ids. Does not know models or retrievers. Roll-back sets lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from core import SamplingParams
from core.types import FinishReason

from .cache import DocumentCache
from .retrievers import Query


class Guess(NamedTuple):
    """A query that was answered from the cache when `num_written` tokens stood; None: no passage."""

    query: Query
    name: str | None
    num_written: int


@dataclass(eq=False)
class Row:
    """`written` follows `prompt`; `document` stands before them once it `is_chosen` for the next stretch.

    `pending` guesses wait to be verified, oldest first; `documents` holds the settled ones as (tokens written,
    passage). A row is settled when it is finished and no guess is left.
    """

    prompt: list[int]
    params: SamplingParams
    max_tokens: int
    document_limit: int
    cache: DocumentCache
    written: list[int] = field(default_factory=list)
    pending: list[Guess] = field(default_factory=list)
    documents: list[tuple[int, str | None]] = field(default_factory=list)
    document: str | None = None
    is_chosen: bool = False
    finish_reason: FinishReason | None = None

    @property
    def is_settled(self) -> bool:
        return self.finish_reason is not None and not self.pending

    @property
    def num_settled(self) -> int:
        """Tokens that no roll-back can take away."""
        return self.pending[0].num_written if self.pending else len(self.written)

    def choose(self, name: str | None) -> None:
        """The document of the next stretch."""
        self.document, self.is_chosen = name, True

    def guess(self, query: Query, name: str | None) -> None:
        """Go on as if `name` were the answer."""
        self.pending.append(Guess(query, name, len(self.written)))
        self.choose(name)

    def settle(self, answers: Sequence[Sequence[str]]) -> tuple[int, bool]:
        """Compare the oldest guesses with what the corpus answered, [best first] for each; roll back at a miss.

        Returns how many were right before the first wrong one, and whether there was one.
        """
        for names in answers:
            self.cache.add(names)
        for number, names in enumerate(answers):
            guess, answer = self.pending[number], names[0] if names else None
            self.documents.append((guess.num_written, answer))
            if guess.name != answer:
                self._roll_back(guess, answer)
                return number, True
        del self.pending[: len(answers)]
        return len(answers), False

    def _roll_back(self, guess: Guess, answer: str | None) -> None:
        del self.written[guess.num_written :]
        self.pending.clear()
        self.finish_reason = None
        self.choose(answer)
