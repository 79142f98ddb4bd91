"""What a drafter may know of a vocabulary: where words begin, how they are spelled, which are spelled alike.

Knows the pieces of byte-level BPE, SentencePiece and WordLevel vocabularies. Does not know languages.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

_SPACES = ("Ġ", "▁")
#: Words shorter than this have too many neighbours.
_MIN_ALIKE = 4
#: Larger vocabularies are not searched for words that are spelled alike: the table would take seconds to build.
_MAX_ALIKE_PIECES = 65_536


class Vocabulary:
    """Pieces by id. Ids beyond the table are words of their own without letters."""

    def __init__(self, pieces: Seq[str]) -> None:
        self._pieces = [piece or "" for piece in pieces]

    @classmethod
    def of(cls, tokenizer: Any) -> Vocabulary | None:
        """The tokenizer's vocabulary, the same for all who ask; None where the pieces cannot be had."""
        convert = getattr(tokenizer, "convert_ids_to_tokens", None)
        if convert is None or not hasattr(tokenizer, "__len__"):
            return None
        known = _READ.get(tokenizer)
        if known is None or len(known._pieces) != len(tokenizer):
            known = _READ[tokenizer] = cls(convert(range(len(tokenizer))))
        return known

    def piece(self, token: int) -> str:
        return self._pieces[token] if 0 <= token < len(self._pieces) else ""

    def starts_word(self, before: int, token: int) -> bool:
        """Whether a word or sign begins with `token` when it stands behind `before`."""
        piece, previous = self.piece(token), self.piece(before)
        return not piece or piece[0] in _SPACES or not piece[0].isalnum() or not previous[-1:].isalnum()

    def spelling(self, tokens: Seq[int]) -> str:
        """The pieces joined, the mark of a leading space included."""
        return "".join(map(self.piece, tokens))

    def recased(self, spelling: str) -> list[int]:
        """Single tokens with the same letters and the same leading space in another case, commonest first."""
        space, word = _split(spelling)
        same = self._by_letters.get((bool(space), word.casefold()), ())
        return [token for token in same if _split(self._pieces[token])[1] != word]

    def alike(self, spelling: str) -> list[int]:
        """Single tokens that one letter more, less, other or swapped away from `spelling`, commonest first."""
        space, word = _split(spelling)
        if len(word) < _MIN_ALIKE or not word.isalpha() or len(self._pieces) > _MAX_ALIKE_PIECES:
            return []
        word = word.casefold()
        found = {
            token
            for shortened in _shortened(word)
            for token in self._by_shortened.get((bool(space), shortened), ())
            if _is_near(word, _split(self._pieces[token])[1])
        }
        return sorted(found)

    @cached_property
    def _by_letters(self) -> dict[tuple[bool, str], list[int]]:
        table: dict[tuple[bool, str], list[int]] = {}
        for token, piece in enumerate(self._pieces):
            space, word = _split(piece)
            if word.isalpha():
                table.setdefault((bool(space), word.casefold()), []).append(token)
        return table

    @cached_property
    def _by_shortened(self) -> dict[tuple[bool, str], list[int]]:
        """Words by themselves with each letter left out (Garbe's symmetric deletes)."""
        table: dict[tuple[bool, str], list[int]] = {}
        for token, piece in enumerate(self._pieces):
            space, word = _split(piece)
            if len(word) >= _MIN_ALIKE and word.isalpha() and word == word.casefold():
                for shortened in _shortened(word):
                    table.setdefault((bool(space), shortened), []).append(token)
        return table


#: Its tables take longer to build than a sentence to decode, so drafters made anew share them.
_READ: WeakKeyDictionary[Any, Vocabulary] = WeakKeyDictionary()


def _split(piece: str) -> tuple[str, str]:
    return (piece[0], piece[1:]) if piece[:1] in _SPACES and piece else ("", piece)


def _shortened(word: str) -> set[str]:
    return {word, *(word[:i] + word[i + 1 :] for i in range(len(word)))}


def _is_near(a: str, b: str) -> bool:
    """Whether one insertion, deletion, substitution or swap of neighbours turns `a` into `b`."""
    if abs(len(a) - len(b)) > 1 or a == b:
        return False
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    x, y = a[start:], b[start:]
    if len(x) != len(y):
        return x[1:] == y if len(x) > len(y) else x == y[1:]
    return x[1:] == y[1:] or (x[1::-1] + x[2:] == y)
