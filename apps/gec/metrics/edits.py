"""Token-level edits between a sentence and its correction, and precision, recall, F0.5 over them.

The comparison is ERRANT's (Bryant, Felice and Briscoe, ACL 2017): an edit is (start, end, replacement) over
source tokens, a hypothesis edit counts when the annotator has the very same one, and of several annotators
each sentence takes the one that lifts the running F most. The extraction is not ERRANT's, which needs a
part-of-speech tagger: here a plain weighted alignment makes edits as small as they go. So gold edits from an
M2 file are never compared directly: they are applied to the source and extracted again from the corrected
text, which makes both sides cut the same change in the same places. Figures are comparable with each other,
and close to ERRANT's but not equal to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

Tokens = Sequence[str]

KEEP, SUBSTITUTE, DELETE, INSERT = "keep", "substitute", "delete", "insert"
# Just below delete + insert, so that unlike words still pair up when nothing else does.
_MAX_SUBSTITUTION = 1.8


class Edit(NamedTuple):
    """Source tokens [start, end) become `replacement` (words joined by spaces, empty for a deletion)."""

    start: int
    end: int
    replacement: str


@dataclass(frozen=True)
class EditScore:
    """Counts over edits; precision, recall and F0.5 follow ERRANT (no proposals: precision 1)."""

    true_positives: int = 0
    false_positives: int = 0
    false_negatives: int = 0

    def __add__(self, other: EditScore) -> EditScore:
        return EditScore(
            self.true_positives + other.true_positives,
            self.false_positives + other.false_positives,
            self.false_negatives + other.false_negatives,
        )

    @property
    def precision(self) -> float:
        """Share of the proposed edits that are right."""
        proposed = self.true_positives + self.false_positives
        return self.true_positives / proposed if proposed else 1.0

    @property
    def recall(self) -> float:
        """Share of the wanted edits that were proposed."""
        wanted = self.true_positives + self.false_negatives
        return self.true_positives / wanted if wanted else 1.0

    def f(self, beta: float = 0.5) -> float:
        """Weighted harmonic mean; beta below 1 favours precision."""
        weighted = beta * beta * self.precision + self.recall
        return (1 + beta * beta) * self.precision * self.recall / weighted if weighted else 0.0


def _substitution_cost(old: str, new: str) -> float:
    """From 0 (equal) towards two single edits; like-spelled words are the likelier pair."""
    if old == new:
        return 0.0
    old_folded, new_folded = old.casefold(), new.casefold()
    if old_folded == new_folded:
        return 0.2
    if not (old[0].isalnum() and new[0].isalnum()) and old[0].isalnum() != new[0].isalnum():
        return _MAX_SUBSTITUTION  # a word does not turn into a comma
    alike = SequenceMatcher(None, old_folded, new_folded, autojunk=False).ratio()
    return 0.4 + (_MAX_SUBSTITUTION - 0.4) * (1.0 - alike)


def _align(source: Tokens, target: Tokens) -> list[str]:
    """Operations that lead from source to target at the least cost, in order."""
    rows, columns = len(source), len(target)
    cost = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    step = [[KEEP] * (columns + 1) for _ in range(rows + 1)]
    for i in range(1, rows + 1):
        cost[i][0], step[i][0] = float(i), DELETE
    for j in range(1, columns + 1):
        cost[0][j], step[0][j] = float(j), INSERT
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            swap = _substitution_cost(source[i - 1], target[j - 1])
            cost[i][j], step[i][j] = min(
                (cost[i - 1][j - 1] + swap, KEEP if swap == 0.0 else SUBSTITUTE),
                (cost[i - 1][j] + 1.0, DELETE),
                (cost[i][j - 1] + 1.0, INSERT),
                key=lambda choice: choice[0],
            )
    operations = []
    i, j = rows, columns
    while i or j:
        operations.append(step[i][j])
        i, j = i - (step[i][j] != INSERT), j - (step[i][j] != DELETE)
    return operations[::-1]


def _joins(run: Sequence[tuple[str, Edit]], source: Tokens) -> bool:
    """Whether the run only moves word borders ("can not" -> "cannot"), which is one edit, not two."""
    old = "".join(source[run[0][1].start : run[-1][1].end])
    new = "".join(edit.replacement for _, edit in run)
    return old.casefold() == new.replace(" ", "").casefold()


def _merge(run: list[tuple[str, Edit]], source: Tokens) -> list[Edit]:
    """Cut a run of adjacent changes into edits: substitutions apart, insertions and deletions joined."""
    whole = " ".join(edit.replacement for _, edit in run if edit.replacement)
    if len(run) > 1 and _joins(run, source):
        return [Edit(run[0][1].start, run[-1][1].end, whole)]
    merged: list[tuple[str, Edit]] = []
    for kind, edit in run:
        if merged and merged[-1][0] == kind != SUBSTITUTE:
            last = merged[-1][1]
            words = f"{last.replacement} {edit.replacement}".strip()
            merged[-1] = (kind, Edit(last.start, edit.end, words))
        else:
            merged.append((kind, edit))
    return [edit for _, edit in merged]


def extract_edits(source: Tokens, target: Tokens) -> list[Edit]:
    """Return the smallest edits that turn source into target, left to right."""
    prefix = 0
    while prefix < min(len(source), len(target)) and source[prefix] == target[prefix]:
        prefix += 1
    suffix = 0
    room = min(len(source), len(target)) - prefix
    while suffix < room and source[-1 - suffix] == target[-1 - suffix]:
        suffix += 1
    edits: list[Edit] = []
    run: list[tuple[str, Edit]] = []
    i = j = prefix
    for kind in _align(source[prefix : len(source) - suffix], target[prefix : len(target) - suffix]):
        if kind == KEEP:
            edits += _merge(run, source) if run else []
            run = []
            i, j = i + 1, j + 1
            continue
        end = i if kind == INSERT else i + 1
        run.append((kind, Edit(i, end, "" if kind == DELETE else target[j])))
        i, j = end, j if kind == DELETE else j + 1
    return edits + (_merge(run, source) if run else [])


def apply_edits(source: Tokens, edits: Iterable[Edit]) -> list[str]:
    """Return the corrected tokens; edits at one place keep the order they are given in."""
    corrected: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        corrected += source[done : edit.start]
        corrected += edit.replacement.split()
        done = max(done, edit.end)
    return corrected + list(source[done:])


def _against(proposed: set[Edit], gold: set[Edit]) -> EditScore:
    return EditScore(len(proposed & gold), len(proposed - gold), len(gold - proposed))


def score_edits(
    sources: Sequence[Tokens], hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> EditScore:
    """Return corpus counts, each sentence against the annotator that raises the running F0.5 most.

    Ties go to more true positives, then fewer false positives, then fewer false negatives, as in ERRANT.
    """
    total = EditScore()
    for source, hypothesis, refs in zip(sources, hypotheses, references, strict=True):
        proposed = set(extract_edits(source, hypothesis))
        options = [total + _against(proposed, set(extract_edits(source, ref))) for ref in refs]
        total = max(
            options,
            key=lambda s: (s.f(), s.true_positives, -s.false_positives, -s.false_negatives),
        )
    return total
