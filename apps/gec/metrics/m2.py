"""Read the M2 format: a tokenised sentence (`S ...`) and annotators' edits (`A start end|||type|||...`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from apps.gec.metrics.edits import Edit, apply_edits

_FIELDS = 6


@dataclass(frozen=True)
class Annotated:
    """A source sentence and, per annotator, the corrected tokens."""

    source: list[str]
    references: list[list[str]]


def _parse_edit(line: str) -> tuple[int, Edit | None]:
    """Annotator and edit of an `A` line; no edit for `noop` (the annotator found nothing to change)."""
    fields = line[2:].split("|||")
    if len(fields) != _FIELDS:
        raise ValueError(f"an M2 edit has {_FIELDS} fields between '|||', this one {len(fields)}: {line!r}")
    start, end = map(int, fields[0].split())
    replacement = "" if fields[2] == "-NONE-" else fields[2]
    return int(fields[5]), None if start < 0 else Edit(start, end, replacement)


def _parse_block(lines: list[str]) -> Annotated:
    source = lines[0][2:].split()
    by_annotator: dict[int, list[Edit]] = {}
    for line in lines[1:]:
        annotator, edit = _parse_edit(line)
        by_annotator.setdefault(annotator, []).extend([edit] if edit else [])
    edit_lists = [by_annotator[annotator] for annotator in sorted(by_annotator)] or [[]]
    return Annotated(source, [apply_edits(source, edits) for edits in edit_lists])


def read_m2(path: Path) -> Iterator[Annotated]:
    """Yield the sentences of an M2 file. An annotator without a line on a sentence is not counted there."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for blank, block in groupby(lines, key=lambda line: not line.strip()):
        if not blank:
            yield _parse_block(list(block))
