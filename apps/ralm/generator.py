"""From documents, prompts and what was written to the next tokens: the part that talks to the engine.

Knows the engine, its tokenizer and how document, prompt and text are put together. When to ask, and with what, is
the methods' own (`in_context`, `iter_retgen`, `flare`). Does not know who chose a document, or whether it is a guess.
Where a document stays, the engine's cache holds all but the newest tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from core import Engine, Request, SamplingParams
from core.text import TextStream
from core.types import FinishReason, LogitsTransform

from .cache import DocumentCache
from .config import RetrievalConfig
from .row import Row


class Generator(ABC):
    """Writes stretches: what a text gets from one document to the next. `text_of(id)` gives a passage's text.

    A token's noise is named by its number in the text, so that neither the document's length nor the cutting in
    stretches shows in what is sampled.
    """

    #: Whether a stretch may replace the text that stands.
    is_revising = False

    def __init__(self, engine: Engine, config: RetrievalConfig, text_of: Callable[[str], str]) -> None:
        self.engine = engine
        self.config = config
        self._text_of = text_of
        self._documents: dict[str, list[int]] = {}
        tokenizer: Any = engine.tokenizer
        ends = engine.target.eos_token_ids | {tokenizer.eos_token_id}
        self._head = [token for token in tokenizer.encode("", add_special_tokens=True) if token not in ends]
        self._separator = self._encode(config.separator)

    def row(self, prompt: str | Sequence[int], params: SamplingParams, cache: DocumentCache) -> Row:
        """A row for a prompt. Raises ValueError, with the numbers, where no document would fit before it."""
        ids = self._encode(prompt) if isinstance(prompt, str) else list(prompt)
        fixed = len(self._head) + len(self._separator) + len(ids) + params.max_new_tokens
        room = self.engine.target.max_length - fixed
        if room < 1:
            raise ValueError(
                f"{fixed} tokens of prompt and text leave no room for a document in a context of "
                f"{self.engine.target.max_length}; shorten the prompt or lower max_new_tokens={params.max_new_tokens}"
            )
        limit = min(self.config.document_tokens, room)
        return Row(ids, params, params.max_new_tokens, limit, cache, self.is_revising)

    @abstractmethod
    def query(self, row: Row) -> str:
        """The text that the row asks with."""

    @abstractmethod
    def write(self, rows: Sequence[Row]) -> None:
        """Write the next stretch of rows whose document is chosen, to where they ask again or end."""

    def text(self, row: Row) -> str:
        """The text that was written, without the stop string that ended it."""
        stream = self.text_stream(row)
        for token in row.written:
            stream.push(token)
        return stream.text

    def text_stream(self, row: Row) -> TextStream:
        """Turns the row's tokens into text, piece by piece."""
        return TextStream(self.engine.tokenizer, row.params.stop)

    def newest(self, row: Row) -> str:
        """The last `query_tokens` tokens of prompt and text."""
        return self._decode((row.prompt + row.written)[-self.config.query_tokens :])

    def _append(self, row: Row, tokens: Sequence[int]) -> None:
        """Take in tokens, up to what ends the text."""
        row.written.extend(tokens)
        row.finish_reason = self._ending(row)

    def _ending(self, row: Row) -> FinishReason | None:
        if row.params.stop:
            # Anew from the start: what a stream had read may have been rolled back since.
            stream = self.text_stream(row)
            for number, token in enumerate(row.written, 1):
                if stream.push(token):
                    del row.written[number:]
                    return "stop"
        if row.written and row.written[-1] in self.engine.target.eos_token_ids:
            return "stop"
        return "length" if len(row.written) >= row.max_tokens else None

    def _request(
        self, row: Row, num_tokens: int, *, stop: tuple[str, ...] = (), prediction: Sequence[int] = (),
        transform: LogitsTransform | None = None,
    ) -> Request:  # fmt: skip
        """At most `num_tokens` behind document, prompt and text; `prediction` only makes it quicker."""
        left = row.max_tokens - len(row.written)
        return Request(
            self._head + self._document(row) + row.prompt + row.written,
            params=replace(row.params, max_new_tokens=min(num_tokens, left), stop=stop),
            prediction=prediction or None,
            transform=transform,
            noise_start=len(row.written),
        )

    def _document(self, row: Row) -> list[int]:
        """The chosen document's first tokens and the separator; nothing without a document."""
        if row.document is None:
            return []
        if row.document not in self._documents:
            self._documents[row.document] = self._encode(self._text_of(row.document))
        return self._documents[row.document][: row.document_limit] + self._separator

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.engine.tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return ids

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self.engine.tokenizer.decode(ids, skip_special_tokens=True)
        return text
