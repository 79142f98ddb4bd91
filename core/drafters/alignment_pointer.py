"""Where in a text that is being rewritten the output stands, and where it may stand after an edit.

Knows two token sequences. The pointer survives a miss: a replaced, inserted or deleted token leaves several
places where the copy may go on, and the next token settles which.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import NamedTuple

#: How far ahead a written token is looked for when it may mean that the tokens before it were deleted.
DELETION_WINDOW = 8


class Place(NamedTuple):
    """The copy may go on at `position`; `kind` says why, `run` how many tokens in a row were copied."""

    position: int
    kind: str
    run: int


class AlignmentPointer:
    """Follows the output through `source`, one written token at a time."""

    def __init__(self, source: Seq[int]) -> None:
        self.source = list(source)
        self.places = [Place(0, "start", 0), Place(1, "skip", 0)]

    def advance(self, token: int) -> None:
        """Take in one written token."""
        source, size = self.source, len(self.source)
        for position, _, run in self.places:
            if position < size and source[position] == token:
                self.places = [Place(position + 1, "run", run + 1)]
                return
        self.places = self._after_edit(token)

    def _after_edit(self, token: int) -> list[Place]:
        """Deletion (the token stands a little later), substitution, insertion, a longer substitution."""
        here = self.places[0].position
        ahead = self.source[here + 1 : here + 1 + DELETION_WINDOW]
        places: list[Place] = []
        if token in ahead:
            places.append(Place(here + 2 + ahead.index(token), "deleted", 0))
        places += [Place(here + 1, "replaced", 0), Place(here, "inserted", 0), Place(here + 2, "skip", 0)]
        first: dict[int, Place] = {}
        for place in places:
            if place.position < len(self.source):
                first.setdefault(place.position, place)
        return list(first.values()) or [Place(len(self.source), "replaced", 0)]
