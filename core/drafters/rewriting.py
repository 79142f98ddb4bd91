"""A text that is being rewritten: where the output stands in it, where it may go on, and what may stand there instead.

Knows the source's tokens, their vocabulary if there is one, and remembered edits. A miss leaves several places where
the copy may go on; which of them it is, the next token settles, and how likely each is, the calibration learns.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from itertools import pairwise
from typing import NamedTuple

from core.drafters.best_first import Level
from core.drafters.correction_memory import CorrectionMemory
from core.drafters.vocabulary import Vocabulary

#: How far ahead a written token is looked for when it may mean that the tokens before it were deleted.
DELETION_WINDOW = 8
#: Behind an edit, a copy that has gone on for so many tokens is a copy like any other.
SETTLED_RUN = 3
#: Words spelled like the one in the source that are worth trying.
_MAX_ALIKE = 2

#: First estimates by kind of place, for a copy that has matched nothing yet.
PRIORS = {
    "run": 0.93, "deleted": 0.7, "word": 0.6, "inserted": 0.35, "inside": 0.3, "skip": 0.2,
    "remembered": 0.35, "case": 0.35, "doubled": 0.2, "alike": 0.2, "memory": 0.7,
}  # fmt: skip


class Place(NamedTuple):
    """The copy may go on at `text[position]`; `kind` says why, `run` how many tokens in a row were copied.

    Behind the end of a text that is not the source it goes on at `rejoins` in the source.
    """

    text: Seq[int]
    position: int
    kind: str
    run: int
    rejoins: int


class Rewriting:
    """One source. `places` is where the output stands; they live on through `advance`."""

    def __init__(
        self,
        source: Seq[int],
        memory: CorrectionMemory,
        vocabulary: Vocabulary | None = None,
        end_token: int | None = None,
    ) -> None:
        self.source = list(source)
        if end_token is not None and self.source[-1:] != [end_token]:
            self.source.append(end_token)
        self._memory = memory
        self._vocabulary = vocabulary
        self._word_starts = self._find_words()
        #: The level of every token in a settled copy.
        self.run_keys = [("run", SETTLED_RUN, shape) for shape in self._shapes()]
        self._instead: dict[int, list[tuple[tuple[str, int], int, Place]]] = {}
        self.places = self.at(0)

    def _at(self, position: int, kind: str, run: int = 0) -> Place:
        return Place(self.source, position, kind, run, 0)

    def _find_words(self) -> list[bool]:
        if self._vocabulary is None:
            return [True] * (len(self.source) + 1)
        pairs = zip([-1, *self.source], self.source, strict=False)
        starts = [self._vocabulary.starts_word(before, token) for before, token in pairs]
        return [*starts, True]

    def moved(self, place: Place) -> Place:
        """One token further."""
        run = min(place.run + 1, SETTLED_RUN)
        kind = "run" if run >= SETTLED_RUN else place.kind
        if place.text is not self.source and place.position + 1 == len(place.text):
            return Place(self.source, place.rejoins, kind, run, 0)
        return Place(place.text, place.position + 1, kind, run, place.rejoins)

    def advance(self, places: Seq[Place], token: int) -> tuple[Place, ...]:
        """The places behind one more token."""
        for place in places:
            if place.position < len(place.text) and place.text[place.position] == token:
                return (self.moved(place),)
        for _, written, moved in self._alternatives(places[0]):
            if written == token:
                return (moved,)
        return self._after_edit(places[0], token)

    def _after_edit(self, place: Place, token: int) -> tuple[Place, ...]:
        """Deletion (the token stands a little later), substitution of a word, insertion, substitution of a part."""
        here = place.position if place.text is self.source else place.rejoins
        size = len(self.source)
        found: dict[int, Place] = {}
        ahead = self.source[here + 1 : here + 1 + DELETION_WINDOW]
        if token in ahead:
            found[here + 2 + ahead.index(token)] = self._at(here + 2 + ahead.index(token), "deleted")
        behind = self._next_word(here)
        wanted = [
            (behind, "word"),
            (here, "inserted"),
            (here + 1, "inside"),
            (self._next_word(behind), "skip"),
        ]
        for position, kind in wanted:
            if position < size:
                found.setdefault(position, self._at(position, kind))
        return tuple(found.values()) or (self._at(size, "word"),)

    def _next_word(self, position: int) -> int:
        position += 1
        while position < len(self.source) and not self._word_starts[position]:
            position += 1
        return min(position, len(self.source))

    def levels(self, places: Seq[Place]) -> Iterator[Level]:
        """What may be written at these places: the copies first, then what may replace them."""
        for place in places:
            if place.position < len(place.text):
                copied = self._key(place)
                yield Level(copied, ((place.text[place.position], 1.0, (self.moved(place),)),))
        for place in places[:2]:
            for key, token, moved in self._alternatives(place):
                yield Level(key, ((token, 1.0, (moved,)),))

    def _key(self, place: Place) -> tuple[str, int, str]:
        if place.text is not self.source:
            return place.kind, place.run, "edit"
        key = self.run_keys[place.position]
        return key if place.kind == "run" else (place.kind, place.run, key[2])

    def _shapes(self) -> list[str]:
        """What kind of token stands at each position: its chance to be copied depends on it.

        A word that the vocabulary had to cut is changed more often than a whole one, its later pieces seldom; where
        an edit is remembered, or the word stands twice, more often still.
        """
        starts = self._word_starts
        shapes = [("whole" if ends else "cut") if begins else "piece" for begins, ends in pairwise(starts)]
        if shapes:
            shapes[0], shapes[-1] = "first", "end"
        for position in range(1, len(shapes)):
            if self._memory.recall(self.source, position) is not None:
                shapes[position] = "remembered"
            elif self.source[position] == self.source[position - 1]:
                shapes[position] = "doubled"
        return shapes

    def at(self, position: int) -> tuple[Place, ...]:
        """A settled copy that goes on at `position`."""
        return (self._at(position, "run", SETTLED_RUN),)

    def _alternatives(self, place: Place) -> list[tuple[tuple[str, int], int, Place]]:
        """(key, token, place behind it) for what may stand there instead of the source's token."""
        if place.text is not self.source or place.position >= len(self.source):
            return []
        known = self._instead.get(place.position)
        if known is None:
            known = self._instead[place.position] = list(self._look_for_alternatives(place.position))
        return known

    def _look_for_alternatives(self, position: int) -> Iterator[tuple[tuple[str, int], int, Place]]:
        recalled = self._memory.recall(self.source, position)
        if recalled is not None:
            written, goes_on = recalled
            text = (*written, self.source[goes_on]) if goes_on < len(self.source) else written
            first = Place(text, 0, "memory", 0, min(goes_on + 1, len(self.source)))
            if text:
                yield ("memory", 0), text[0], self.moved(first)
        if not self._word_starts[position]:
            return
        behind = self._next_word(position)
        word = self.source[position:behind]
        if behind < len(self.source) and word == self.source[max(position - len(word), 0) : position]:
            yield ("doubled", 0), self.source[behind], self._at(behind + 1, "deleted")
        if self._vocabulary is None:
            return
        for kind, tokens in self._spelled_otherwise(position, word):
            for rank, token in enumerate(tokens[:_MAX_ALIKE]):
                yield (kind, rank), token, self._at(behind, kind)

    def _spelled_otherwise(self, position: int, word: list[int]) -> Iterator[tuple[str, list[int]]]:
        assert self._vocabulary is not None
        spelling = self._vocabulary.spelling(word)
        if position <= 1 and spelling == spelling.casefold():
            yield "case", self._vocabulary.recased(spelling)
        if len(word) > 1:
            yield "alike", self._vocabulary.alike(spelling)
