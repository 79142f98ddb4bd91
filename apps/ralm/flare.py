"""FLARE-style active retrieval (Jiang et al. 2305.06983): retrieve only where the model is about to be unsure.

Knows sentences and probabilities. The text is looked ahead at to the sentence's end. Where the model is sure of every
token, the sentence stands; else it asks for a document, without the tokens that it is least sure of, and the sentence
is written again after that. Unlike in the paper, the text is looked ahead at with the document that is in place (there
with none), so that what was retrieved goes on to count and the engine's cache stays; and one document is read, not two.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from core.types import Completion

from .generator import Generator
from .recording import ConfidenceTransform
from .row import Row

_MARKS = (".", "!", "?")
#: What ends a sentence: a mark is one only where a space follows, for the sake of "3.14".
_ENDS = (*(f"{mark} " for mark in _MARKS), "\n")


class Flare(Generator):
    """Writes to the next sentence of which the model is less sure than `config.threshold` at some token."""

    def query(self, row: Row) -> str:
        """The tokens of the sentence ahead that are at least `config.mask` probable; the newest ones without any."""
        asked = self._decode(row.question)
        return asked if asked.strip() else self.newest(row)

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            assert row.is_chosen, "a sentence needs a document, or the choice of none"
            row.is_chosen = False
        # The first document is asked for by the prompt: nothing was looked ahead at yet.
        self._write_again([row for row in rows if len(row.trail) > 1])
        ahead = list(rows)
        while ahead := [row for row in ahead if row.finish_reason is None]:
            ahead = self._look_ahead(ahead)

    def _write_again(self, rows: Sequence[Row]) -> None:
        requests = [
            self._request(row, self.config.lookahead, stop=_ENDS, prediction=row.tentative) for row in rows
        ]
        for row, done in zip(rows, self.engine.generate(requests), strict=True):
            row.num_generated += len(done.token_ids)
            self._append(row, self._sentence(done))
            row.tentative, row.question = [], []

    def _look_ahead(self, rows: Sequence[Row]) -> list[Row]:
        """Write the next sentence of rows; those that are sure of it are returned, the others have a question."""
        transforms = [ConfidenceTransform() for _ in rows]
        requests = [
            self._request(row, self.config.lookahead, stop=_ENDS, transform=transform)
            for row, transform in zip(rows, transforms, strict=True)
        ]
        sure = []
        done = self.engine.generate(requests)
        for row, transform, request, one in zip(rows, transforms, requests, done, strict=True):
            row.num_generated += len(one.token_ids)
            tokens, num_prompt = self._sentence(one), len(request.prompt)
            probs = transform.probabilities([*request.prompt, *tokens], num_prompt)
            if min(probs) >= self.config.threshold:
                self._append(row, tokens)
                sure.append(row)
            else:
                row.tentative = tokens
                row.question = [t for t, p in zip(tokens, probs, strict=True) if p >= self.config.mask]
        return sure

    def _sentence(self, done: Completion) -> list[int]:
        return first_sentence(done, self._decode, self.engine.target.eos_token_ids)


def first_sentence(
    done: Completion, decode: Callable[[Sequence[int]], str], end_tokens: Container[int]
) -> list[int]:
    """The tokens up to the sentence's end: what came with the space behind its mark is the next sentence's."""
    tokens = done.token_ids
    is_whole = done.finish_reason == "stop" and tokens[-1] not in end_tokens
    if is_whole and len(tokens) > 1 and decode(tokens[:-1]).endswith(_MARKS):
        return tokens[:-1]
    return tokens
