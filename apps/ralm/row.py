"""One text that is being written: its tokens, its document, and the guesses that nobody has checked yet.

Knows token ids and passage ids. Does not know models or retrievers. Roll-back restores what stood at a guess.
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
    """A query that was answered from the cache, with what stood then; None: no passage."""

    query: Query
    name: str | None
    written: tuple[int, ...]
    tentative: tuple[int, ...]
    num_generated: int


class Settlement(NamedTuple):
    """What one verification decided: guesses that were `matched` before the first that was `missed`, and the
    stretches and tokens that went with that one."""

    matched: int
    missed: bool
    lost_steps: int = 0
    lost_tokens: int = 0


@dataclass(eq=False)
class Row:
    """`written` follows `prompt`; `document` stands before them once it `is_chosen` for the next stretch.

    `pending` guesses wait to be verified, oldest first; `documents` holds the settled ones as (tokens written,
    passage). A row is settled when it is finished and no guess is left. `is_revised`: a later stretch may replace
    the text, so none of it is settled before the end. `tentative` tokens were looked at but do not count as
    written, `question` tokens are what they made of the next query. `num_generated` counts what the model wrote
    for it, also what was written anew.
    """

    prompt: list[int]
    params: SamplingParams
    max_tokens: int
    document_limit: int
    cache: DocumentCache
    is_revised: bool = False
    written: list[int] = field(default_factory=list)
    tentative: list[int] = field(default_factory=list)
    question: list[int] = field(default_factory=list)
    pending: list[Guess] = field(default_factory=list)
    documents: list[tuple[int, str | None]] = field(default_factory=list)
    document: str | None = None
    is_chosen: bool = False
    num_generated: int = 0
    finish_reason: FinishReason | None = None

    @property
    def is_settled(self) -> bool:
        return self.finish_reason is not None and not self.pending

    @property
    def num_settled(self) -> int:
        """Tokens that no roll-back can take away."""
        if self.is_revised:
            return len(self.written) if self.is_settled else 0
        return len(self.pending[0].written) if self.pending else len(self.written)

    @property
    def trail(self) -> list[str | None]:
        """The passages that the text was written after so far, settled or guessed; the newest is `document`."""
        return [name for _, name in self.documents] + [guess.name for guess in self.pending]

    def choose(self, name: str | None) -> None:
        """The document of the next stretch."""
        self.document, self.is_chosen = name, True

    def guess(self, query: Query, name: str | None) -> None:
        """Go on as if `name` were the answer."""
        standing = tuple(self.written), tuple(self.tentative), self.num_generated
        self.pending.append(Guess(query, name, *standing))
        self.choose(name)

    def settle(self, answers: Sequence[Sequence[str]]) -> Settlement:
        """Compare the oldest guesses with what the corpus answered, [best first] for each; roll back at a miss."""
        for names in answers:
            self.cache.add(names)
        for number, names in enumerate(answers):
            guess, answer = self.pending[number], names[0] if names else None
            self.documents.append((len(guess.written), answer))
            if guess.name != answer:
                # Every guess was written on, but for the last one where it was only just chosen.
                lost_steps = len(self.pending) - number - self.is_chosen
                lost_tokens = self.num_generated - guess.num_generated
                self._roll_back(guess, answer)
                return Settlement(number, True, lost_steps, lost_tokens)
        del self.pending[: len(answers)]
        return Settlement(len(answers), False)

    def _roll_back(self, guess: Guess, answer: str | None) -> None:
        self.written, self.tentative = list(guess.written), list(guess.tentative)
        self.num_generated = guess.num_generated
        self.pending.clear()
        self.finish_reason = None
        self.choose(answer)
