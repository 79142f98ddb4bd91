"""A growing text in the tokens of two tokenizers.

Knows tokenizers and strings. Does not know models or rows.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

_REPLACEMENT = "\ufffd"
#: Tokens of context that what follows is decoded and split with: many tokenizers treat a first token differently.
_CONTEXT = 8
#: So many characters may be split anew at each step; those before are settled, up to so many from the end.
_LONGEST_TAIL, _KEPT_TAIL = 96, 32


class Splitter:
    """A tokenizer's tokens of a growing text, at a cost that does not grow with it."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._settled: list[int] = []
        self._num_settled = 0

    def split(self, text: str) -> list[int]:
        """The tokens of `text`, which must begin like the one before it, but for its last characters."""
        tail = text[self._num_settled :].rstrip(_REPLACEMENT)
        ids = encode(self._tokenizer, tail)
        whole = [*self._settled, *ids]
        if len(tail) > _LONGEST_TAIL:
            self._settle(tail, ids)
        return whole

    def _settle(self, tail: str, ids: list[int]) -> None:
        """Keep what stands before a space, if the two halves split on their own as they do together."""
        end = tail.rfind(" ", 1, len(tail) - _KEPT_TAIL)
        if end < 0:
            return
        head = encode(self._tokenizer, tail[:end])
        if head + encode(self._tokenizer, tail[end:]) == ids:
            self._settled += head
            self._num_settled += end


def encode(tokenizer: Any, text: str) -> list[int]:
    """Tokens of a text, without special ones."""
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


def decode(tokenizer: Any, ids: Seq[int]) -> str:
    """The text of tokens, special ones left out."""
    text: str = tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text


def text_behind(tokenizer: Any, before: Seq[int], ids: Seq[int]) -> str:
    """What `ids` add to the text of `before`, as far as it is whole characters."""
    context = before[-_CONTEXT:]
    whole = decode(tokenizer, [*context, *ids]).rstrip(_REPLACEMENT)
    return whole[len(decode(tokenizer, context)) :]


def tokens_behind(tokenizer: Any, before: Seq[int], text: str) -> list[int]:
    """`text` in tokens that may follow the tokens `before`.

    Split together with the last of them where that leaves these as they are, which is how the tokenizer would have
    written it; else on its own.
    """
    for size in range(min(_CONTEXT, len(before)), 0, -1):
        context = list(before[-size:])
        ids = encode(tokenizer, decode(tokenizer, context) + text)
        if ids[:size] == context:
            return ids[size:]
    return encode(tokenizer, text)
