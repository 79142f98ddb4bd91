"""The edits between a text and its correction, and their application.

Knows character spans. Whatever the two strings are, applying the edits to the source gives the target exactly:
an edit is what stands between two anchors (tokens that both sides share), so nothing can fall between.
What kind of error an edit mends is asked of `classification`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .alignment import Group, align
from .classification import classify, two_word_change
from .tokens import Token, tokenize

_MOVE_WINDOW = 4  # a word that moved over more tokens than this is one deletion and one insertion


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `source[start:end]`, which reads `original`, by `replacement`.

    `type` is ERRANT-style: operation M (missing), U (unneeded) or R (replace), a colon, and the kind of error.
    `tokens` is the span in tokens of the source, as M2 wants it.
    """

    start: int
    end: int
    original: str
    replacement: str
    type: str = "R:OTHER"
    tokens: tuple[int, int] = (0, 0)

    @property
    def operation(self) -> str:
        return self.type[0]

    def shifted(self, offset: int) -> Edit:
        """The same edit in a text where the source begins `offset` characters later."""
        return replace(self, start=self.start + offset, end=self.end + offset)


def apply_edits(source: str, edits: Sequence[Edit]) -> str:
    """`source` with `edits` (ordered, not overlapping) applied."""
    parts: list[str] = []
    at = 0
    for edit in edits:
        parts += (source[at : edit.start], edit.replacement)
        at = edit.end
    parts.append(source[at:])
    return "".join(parts)


def extract_edits(source: str, target: str, *, typed: bool = True) -> list[Edit]:
    """The edits that turn `source` into `target`, in order; all R:OTHER unless `typed`."""
    if source == target:
        return []
    old, new = tokenize(source), tokenize(target)
    groups = align([t.text for t in old], [t.text for t in new])
    groups = _merge_moves(_merge_helpers(groups, old, new), old, new)
    spans = _spans(groups, old, new, len(source), len(target))
    return [
        _edit(source, target, span, group, _type(group, old, new) if typed else "R:OTHER")
        for span, group in spans
        if source[span[0] : span[1]] != target[span[2] : span[3]]
    ]


def _merge_helpers(groups: list[Group], old: list[Token], new: list[Token]) -> list[Group]:
    """Join "+is" and "go -> going" where they stand side by side: they are one change."""
    merged: list[Group] = []
    for group in groups:
        last = merged[-1] if merged else None
        if last and (last.i2, last.j2) == (group.i1, group.j1):
            joined = Group(last.i1, group.i2, last.j1, group.j2)
            if two_word_change(
                [t.text for t in old[joined.i1 : joined.i2]], [t.text for t in new[joined.j1 : joined.j2]]
            ):
                merged[-1] = joined
                continue
        merged.append(group)
    return merged


def _merge_moves(groups: list[Group], old: list[Token], new: list[Token]) -> list[Group]:
    """Join a deletion and an insertion of the same words a few tokens apart: a change of word order."""
    merged: list[Group] = []
    for group in groups:
        last = merged[-1] if merged else None
        if last and group.i1 - last.i2 <= _MOVE_WINDOW:
            words = [
                ([t.text.casefold() for t in old[g.i1 : g.i2]], [t.text.casefold() for t in new[g.j1 : g.j2]])
                for g in (last, group)
            ]
            (gone, come), (gone_too, come_too) = words
            moved = (gone == come_too and not come and not gone_too) or (
                come == gone_too and not gone and not come_too
            )
            if moved:
                merged[-1] = Group(last.i1, group.i2, last.j1, group.j2)
                continue
        merged.append(group)
    return merged


Span = tuple[int, int, int, int]  # source start, source end, target start, target end


def _spans(
    groups: list[Group], old: list[Token], new: list[Token], old_length: int, new_length: int
) -> list[tuple[Span, Group]]:
    """Cut both texts at the anchors and between touching groups; spans that hold no group hold whitespace."""
    spans: list[tuple[Span, Group]] = []
    i = j = 0  # next token of each side
    s = t = 0  # next character of each side
    for group in [*groups, Group(len(old), len(old), len(new), len(new))]:
        while i < group.i1:  # an anchor on both sides: the gap before it is a span of its own
            _append(spans, (s, old[i].start, t, new[j].start), Group(i, i, j, j))
            s, t, i, j = old[i].end, new[j].end, i + 1, j + 1
        if group.i1 == len(old) and group.j1 == len(new):
            continue
        s_end = old[group.i2 - 1].end if group.i2 > group.i1 else s
        t_end = new[group.j2 - 1].end if group.j2 > group.j1 else t
        if group.i1 == group.i2 < len(old) and s == old[group.i2].start and group.j2 < len(new):
            t_end = new[
                group.j2
            ].start  # nothing parts it from the next word in the source: it brings the space
        spans.append(((s, s_end, t, t_end), group))
        s, t, i, j = s_end, t_end, group.i2, group.j2
    _append(spans, (s, old_length, t, new_length), Group(i, i, j, j))
    return spans


def _append(spans: list[tuple[Span, Group]], gap: Span, place: Group) -> None:
    """Add a gap; a gap that touches the group before it and differs in width belongs to that group's edit."""
    s, s_end, t, t_end = gap
    if spans and spans[-1][0][1] == s and spans[-1][0][3] == t and (s_end - s) != (t_end - t):
        (s, _, t, _), place = spans.pop()
    spans.append(((s, s_end, t, t_end), place))


def _edit(source: str, target: str, span: Span, group: Group, kind: str) -> Edit:
    """Trim the whitespace that both sides share."""
    s, s_end, t, t_end = span
    while s < s_end and t < t_end and source[s] == target[t] and source[s].isspace():
        s, t = s + 1, t + 1
    while s < s_end and t < t_end and source[s_end - 1] == target[t_end - 1] and source[s_end - 1].isspace():
        s_end, t_end = s_end - 1, t_end - 1
    return Edit(s, s_end, source[s:s_end], target[t:t_end], kind, (group.i1, group.i2))


def _type(group: Group, old: list[Token], new: list[Token]) -> str:
    """The kind of error, from the tokens that changed and two neighbours on each side."""
    return classify(
        [t.text for t in old[group.i1 : group.i2]],
        [t.text for t in new[group.j1 : group.j2]],
        before=[t.text for t in new[max(0, group.j1 - 2) : group.j1]],
        after=[t.text for t in new[group.j2 : group.j2 + 2]],
    )
