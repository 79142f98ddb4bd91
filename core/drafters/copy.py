"""Drafts copied from everything that can be copied: one tree over all matches in all sources.

Candidates are *pointers* into texts: where the aligned source stands (and may stand after an edit), where the
last tokens occurred before, and what an earlier edit wrote. Pointers that agree on the next token share a node;
nodes are expanded best first by an acceptance estimate calibrated online. Encoder-decoder models align with
their own input, decoder-only ones with `Request.prediction`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence as Seq
from typing import NamedTuple

from core.drafters.alignment_pointer import AlignmentPointer
from core.drafters.base import Drafter
from core.drafters.calibration import Calibration
from core.drafters.correction_memory import CorrectionMemory
from core.drafters.ngram_index import NgramIndex
from core.targets.base import PassOutput
from core.types import EMPTY_TREE, DraftTree, Sequence, Verdict

MAX_RUN = 12
#: Behind an edit, a copy that has gone on for so many tokens is a copy like any other.
SETTLED_RUN = 4
#: Nodes below this chance of being reached are not worth a slot, however large the budget.
MIN_SCORE = 0.02


class Key(NamedTuple):
    """What an acceptance estimate depends on: kind of pointer, tokens matched so far, how many pointers agree,
    and whether a likelier sibling stands before it."""

    kind: str
    run: int
    agreement: int
    rank: int


class Pointer(NamedTuple):
    text: Seq[int]
    position: int
    kind: str
    run: int
    aligned: bool = False

    def moved(self) -> Pointer:
        """One token further."""
        run = min(self.run + 1, MAX_RUN)
        kind = "run" if self.aligned and run >= SETTLED_RUN else self.kind
        return Pointer(self.text, self.position + 1, kind, run, self.aligned)


#: First estimates by kind, for a pointer that has matched nothing yet.
PRIORS = {
    "start": 0.9, "run": 0.9, "deleted": 0.7, "replaced": 0.5, "inserted": 0.25, "skip": 0.15,
    "memory": 0.6, "source": 0.2, "prompt": 0.2, "output": 0.15, "prediction": 0.3,
}  # fmt: skip


def prior(key: Key) -> float:
    """A long match is likelier to go on than a short one, and a sibling takes what the first leaves."""
    base = PRIORS[key.kind]
    grown = base + (0.97 - base) * (1 - 0.6**key.run)
    agreed = grown + (1 - grown) * 0.3 * (key.agreement - 1)
    return agreed * (1.0, 0.35, 0.15)[key.rank]


class _RowState:
    """Sources of one row, indexed, and how far the output has been taken in."""

    def __init__(self, row: Sequence, is_aligned: bool, eos_token_id: int | None) -> None:
        self.index = NgramIndex()
        for source in row.source_ids:
            self.index.add(source, "source")
        self.pointers: dict[str, AlignmentPointer] = {}
        if is_aligned:
            self._align(row.prompt_ids, "prompt", eos_token_id)
        if row.prediction_ids is not None:
            self._align(row.prediction_ids, "prediction", eos_token_id)
        self.output = self.index.add(row.tokens, "output")
        self.seen = len(row.tokens)

    def _align(self, tokens: list[int], kind: str, eos_token_id: int | None) -> None:
        if eos_token_id is not None and (not tokens or tokens[-1] != eos_token_id):
            tokens = [*tokens, eos_token_id]
        self.index.add(tokens, kind)
        self.pointers[kind] = AlignmentPointer(tokens)

    def catch_up(self, row: Sequence) -> None:
        new = row.tokens[self.seen :]
        self.index.append(self.output, new)
        for pointer in self.pointers.values():
            for token in new:
                pointer.advance(token)
        self.seen = len(row.tokens)

    def candidates(self, row: Sequence) -> list[Pointer]:
        found = [
            Pointer(pointer.source, place.position, place.kind, min(place.run, MAX_RUN), True)
            for pointer in self.pointers.values()
            for place in pointer.places
            if place.position < len(pointer.source)
        ]
        # At the start there is nothing to look for yet, and deep inside a copied stretch the n-grams only find
        # the same place again.
        if found and (found[0].kind == "start" or found[0].run >= 3):
            return found
        known = {(kind, place.position) for kind, p in self.pointers.items() for place in p.places}
        matches = self.index.occurrences(row.tokens[-self.index.max_length :])
        return found + [
            Pointer(match.text, match.end, match.kind, min(match.length, MAX_RUN))
            for match in matches
            if (match.kind, match.end) not in known
        ]


class Copy(Drafter):
    """The all-match source tree with edit-aware realignment and correction memory.

    `calibration` and `memory` live as long as the engine and are shared by its rows; `is_aligned` says that
    outputs rewrite the prompt (encoder-decoder models).
    """

    def __init__(
        self,
        *,
        is_aligned: bool,
        eos_token_ids: frozenset[int] = frozenset(),
        memory: CorrectionMemory | None = None,
    ) -> None:
        self.calibration = Calibration(prior)
        self.memory = CorrectionMemory() if memory is None else memory
        self._is_aligned = is_aligned
        self._eos = frozenset(eos_token_ids)
        self._rows: dict[int, _RowState] = {}

    def begin(self, row: Sequence) -> None:
        eos = min(self._eos) if self._eos else None
        self._rows[row.id] = _RowState(row, self._is_aligned, eos)

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        trees = []
        for row, limit in zip(rows, max_nodes, strict=True):
            state = self._rows[row.id]
            state.catch_up(row)
            trees.append(self._grow(state.candidates(row), limit) if limit > 0 else EMPTY_TREE)
        return trees

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        """Record every guess whose parent was accepted: those are the ones that were really tried."""
        for tree, verdict in zip(trees, verdicts, strict=True):
            accepted = set(verdict.path)
            reached = accepted | {-1}
            for node, parent in enumerate(tree.parents):
                if parent in reached:
                    self.calibration.record(tree.origins[node], node in accepted)  # type: ignore[index]

    def end(self, row: Sequence) -> None:
        self._rows.pop(row.id)
        if self._is_aligned and row.finish_reason == "stop":
            self.memory.learn(row.prompt_ids, row.output_ids)

    def _grow(self, candidates: list[Pointer], limit: int) -> DraftTree:
        """Best-first expansion: always the node that is likeliest to be reached."""
        tokens: list[int] = []
        parents: list[int] = []
        scores: list[float] = []
        origins: list[object] = []
        heap: list[tuple[float, int, int, int, Key, list[Pointer]]] = []
        serial = 0
        for token, key, pointers in self._children(candidates):
            serial += 1
            heapq.heappush(heap, (-self.calibration.estimate(key), serial, -1, token, key, pointers))
        while heap and len(tokens) < limit:
            negative, _, parent, token, key, pointers = heapq.heappop(heap)
            node = len(tokens)
            tokens.append(token)
            parents.append(parent)
            scores.append(-negative)
            origins.append(key)
            if token in self._eos:
                continue
            for child, child_key, advanced in self._children(pointers):
                score = negative * self.calibration.estimate(child_key)
                if -score >= MIN_SCORE:
                    serial += 1
                    heapq.heappush(heap, (score, serial, node, child, child_key, advanced))
        return DraftTree(tokens, parents, scores, None, origins)

    def _children(self, pointers: list[Pointer]) -> list[tuple[int, Key, list[Pointer]]]:
        """Next tokens that the pointers (and remembered edits) suggest, likeliest first, with the pointers
        that agree on each moved on."""
        pointers = self._with_memories(pointers)
        if len(pointers) == 1:  # nearly always
            text, position, kind, run, _ = pointers[0]
            if position == len(text):
                return []
            return [(text[position], Key(kind, run, 1, 0), [pointers[0].moved()])]
        groups: dict[int, list[Pointer]] = {}
        for pointer in pointers:
            if pointer.position < len(pointer.text):
                groups.setdefault(pointer.text[pointer.position], []).append(pointer)
        return self._ranked(groups)

    def _ranked(self, groups: dict[int, list[Pointer]]) -> list[tuple[int, Key, list[Pointer]]]:
        estimate = self.calibration.estimate
        ranked = []
        for token, group in groups.items():
            keys = [Key(p.kind, p.run, min(len(group), 3), 0) for p in group]
            best = keys[0] if len(keys) == 1 else max(keys, key=estimate)
            ranked.append((token, best, [pointer.moved() for pointer in group]))
        if len(ranked) == 1:
            return ranked
        ranked.sort(key=lambda item: -estimate(item[1]))
        return [(token, key._replace(rank=min(i, 2)), group) for i, (token, key, group) in enumerate(ranked)]

    def _with_memories(self, pointers: list[Pointer]) -> list[Pointer]:
        """The pointers, and behind an aligned one what an earlier edit wrote at this place."""
        if not len(self.memory):
            return pointers
        extra = []
        for pointer in pointers:
            if pointer.aligned:
                recalled = self.memory.recall(pointer.text, pointer.position)
                if recalled is not None:
                    written, goes_on = recalled
                    text = [*written, *pointer.text[goes_on:]]
                    # Aligned like the pointer it left: the next remembered edit is found behind this one.
                    extra.append(Pointer(text, 0, "memory", 0, True))
        return [*pointers, *extra] if extra else pointers
