"""Carrying a correction back to the text as it was written.

The model does not see the source but a plainer version of it: on one line, single spaces, straight quotes, and
without emoji or what else its vocabulary lacks. Its changes are found between *that* text and its output and then
made in the source, so whatever the model could not see survives. Knows strings only.

Changes that are not made, and counted instead:
- those that touch a character which the model saw differently (an emoji, a ligature, a rare script);
- those that alter what is no grammar: addresses, code, figures, symbols, names (see `facts`);
- in English, those that make a word that does not exist, or mend one that does (see `vocabulary`);
- a capital or a full stop where no sentence begins or ends: in a list, or where a long sentence was cut.
A change that would swallow a line break keeps it: the break moves to the nearest space of the replacement. Where
there is none, `project` returns None, and the caller corrects line by line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from .edits import Edit, apply_edits, extract_edits
from .facts import are_kept, is_marked
from .typography import straight, styled
from .vocabulary import english

_BREAKS = re.compile(r"\s*[\n\r\v\f\x85\u2028\u2029]\s*")
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Projection:
    """The corrected source, and how many of the model's changes were not made in it."""

    text: str
    dropped: int = 0


def one_line(text: str) -> str:
    """`text` with every run of whitespace made one space, and none at its ends."""
    return " ".join(text.split())


def project(
    source: str,
    seen: str,
    output: str,
    *,
    open_start: bool = False,
    open_end: bool = False,
    is_english: bool = True,
) -> Projection | None:
    """`source` with the changes that lead from `seen` to `output`; None if a line break would be lost.

    `open_start` and `open_end` say that no sentence begins or ends there, `is_english` that it is judged as English.
    """
    # The model reads straight quotation marks; curly ones come back from the source.
    output = straight(one_line(output))
    if output == seen:
        return Projection(source)
    vocabulary = english() if is_english and english().doubts(seen, output) else None
    whole = not open_start and not open_end
    if source == seen and whole and vocabulary is None and are_kept(seen, output, keep_letters=is_english):
        return Projection(output)
    atlas = _Atlas(source, seen)
    made: list[Edit] = []  # in `seen`
    moved: list[Edit] = []  # the same in `source`
    dropped = 0
    edits = extract_edits(seen, output, typed=vocabulary is not None)
    # What goes in one place and comes in another has moved: both or none.
    gone = {edit.original.strip().casefold() for edit in edits if not edit.replacement.strip()}
    for edit in edits:
        is_moved = edit.replacement.strip().casefold() in gone
        refused = (
            (open_start and edit.start == 0 and _is_case(edit))
            or (open_end and edit.end == len(seen) and _is_mark(edit))
            or (vocabulary is not None and not vocabulary.believes(edit, seen, output))
            or (vocabulary is not None and not is_moved and vocabulary.evades(edit, seen))
            or (not edit.replacement.strip() and is_marked(seen, edit.start, edit.end))
            or atlas.unsure(edit)
            # Together with those before it: two harmless ones may make an address of their own.
            or not are_kept(seen, apply_edits(seen, [*made, edit]), keep_letters=is_english)
        )
        if refused:
            dropped += 1
            continue
        own = _keep_break(source, atlas.move(edit))
        if own is None:
            return None
        made.append(edit)
        moved.append(own)
    return Projection(apply_edits(source, _in_order(moved)), dropped)


def _is_case(edit: Edit) -> bool:
    return edit.original != "i" and edit.original.casefold() == edit.replacement.casefold()


def _is_mark(edit: Edit) -> bool:
    return not any(c.isalnum() for c in edit.original + edit.replacement)


def _in_order(edits: list[Edit]) -> list[Edit]:
    """Edits without those that reach into the one before them (a moved line break may do that)."""
    kept: list[Edit] = []
    for edit in edits:
        if not kept or edit.start >= kept[-1].end:
            kept.append(edit)
    return kept


class _Atlas:
    """Which character of `source` each character of `seen` is."""

    def __init__(self, source: str, seen: str) -> None:
        self.source = source
        self.places = [0] * len(seen)  # index in source of each character of seen
        # Spans of `seen` that differ from the source in more than whitespace and quotes.
        self.hard: list[tuple[int, int]] = []
        source = straight(source)
        for op in Levenshtein.opcodes(source, straight(seen)):
            old, new = source[op.src_start : op.src_end], straight(seen[op.dest_start : op.dest_end])
            for i in range(op.dest_start, op.dest_end):
                self.places[i] = min(op.src_start + i - op.dest_start, max(op.src_end - 1, 0))
            if op.tag != "equal" and (old.strip() or new.strip()):
                self.hard.append((op.dest_start, op.dest_end))

    def unsure(self, edit: Edit) -> bool:
        """Whether the edit touches something that the model did not see as it is."""
        return any(edit.start <= end and edit.end >= start for start, end in self.hard)

    def move(self, edit: Edit) -> Edit:
        """The edit in the source's own positions."""
        if edit.start == edit.end:  # an insertion stays behind the character that it followed
            start = end = self.places[edit.start - 1] + 1 if edit.start else 0
        else:
            start, end = self.places[edit.start], self.places[edit.end - 1] + 1
        text = styled(edit.replacement, self.source, start)
        return Edit(start, end, self.source[start:end], text)


def _keep_break(source: str, edit: Edit) -> Edit | None:
    """The edit with the line breaks of its span still in it, or None where they have no place."""
    breaks = list(_BREAKS.finditer(edit.original))
    if not breaks:
        return edit
    if len(breaks) > 1:
        return None
    found = breaks[0]
    follows = _SPACES.match(source, edit.end)
    if found.start() == 0 and not edit.replacement[:1].isspace() and (follows or edit.end == len(source)):
        # A word behind the break goes: take the space behind it instead of the break before it.
        start, end = edit.start + found.end(), follows.end() if follows else edit.end
        if edit.replacement or _BREAKS.search(source[edit.end : end]):
            return None
        return Edit(start, end, source[start:end], "")
    spaces = list(_SPACES.finditer(edit.replacement))
    if not spaces:
        return None
    wanted = found.start() / max(1, len(edit.original))
    nearest = min(spaces, key=lambda m: abs(m.start() / max(1, len(edit.replacement)) - wanted))
    text = edit.replacement[: nearest.start()] + found.group() + edit.replacement[nearest.end() :]
    return Edit(edit.start, edit.end, edit.original, text)
