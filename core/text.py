"""Tokens to text, piece by piece: whole characters only, and never the beginning of a stop string.

Knows a tokenizer and strings. Does not know models or rows.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

_REPLACEMENT = "�"


class TextStream:
    """The text of a growing list of tokens.

    `push` takes one token and returns whether a stop string is complete; `text` is the text so far up to it;
    `take` returns what may be shown and was not yet. Without stop strings nothing is decoded until it is asked
    for.
    """

    def __init__(self, tokenizer: Any, stop: Seq[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._ids: list[int] = []
        # Tokens before `_start` are settled; decoding begins there so that the cost of a token stays constant,
        # and keeps some tokens of context because many tokenizers decode a first token differently.
        self._start = 0
        self._settled = ""
        self._shown = 0
        self._text = ""
        # Tokens that `_text` covers.
        self._decoded = 0

    @property
    def text(self) -> str:
        """The text so far, without a stop string that ended it."""
        if self._decoded < len(self._ids):
            self._text = self._settled + self._decode(self._start)
            self._decoded = len(self._ids)
            if len(self._ids) - self._start > 48:
                self._settle()
        return self._text

    def push(self, token: int) -> bool:
        """Take in one token; True if a stop string is complete (the text then ends before it)."""
        self._ids.append(token)
        places = [self.text.find(stop, max(0, self._shown - len(stop))) for stop in self._stop]
        found = [place for place in places if place >= 0]
        if found:
            self._text = self._text[: min(found)]
        return bool(found)

    def take(self, finished: bool = False) -> str:
        """The text that is new and safe to show."""
        end = len(self.text) if finished else self._safe_end()
        piece = self.text[self._shown : end]
        self._shown = max(self._shown, end)
        return piece

    def _safe_end(self) -> int:
        text = self.text.rstrip(_REPLACEMENT)
        held = 0
        for stop in self._stop:
            for size in range(min(len(stop) - 1, len(text)), 0, -1):
                if text.endswith(stop[:size]):
                    held = max(held, size)
                    break
        return len(text) - held

    def _decode(self, start: int) -> str:
        context = max(0, start - 8)
        whole: str = self._decode_ids(self._ids[context:])
        if context == start:
            return whole
        return whole[len(self._decode_ids(self._ids[context:start])) :]

    def _decode_ids(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def _settle(self) -> None:
        """Move the start forward, where the text before it ends in a whole character."""
        # With byte fallback one broken character at the end spoils the whole run of bytes that it ends.
        if self._text.endswith(_REPLACEMENT):
            return
        middle = len(self._ids) - 16
        if not self._decode_ids(self._ids[max(0, self._start - 8) : middle]).endswith(_REPLACEMENT):
            tail = self._decode(middle)
            if self._text.endswith(tail):
                self._settled = self._text[: len(self._text) - len(tail)]
                self._start = middle
