"""Input-guided aggressive decoding, as published (Sun et al. 2106.04970; Ge et al. 2205.10350).

The input is the draft from the start. After a token that differs, tokens are decoded one by one until the last ones
written stand at exactly one place in the input; the copy goes on behind it.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

from core.drafters.base import Drafter
from core.drafters.calibration import Calibration
from core.drafters.growth import chain
from core.drafters.trials import tried
from core.targets.base import PassOutput
from core.types import DraftTree, Sequence, Verdict

#: Runs of copied tokens longer than this are estimated alike.
_MAX_RUN = 8


class _RowState:
    """The input, and where in it the copy stands: None while it has lost its way."""

    def __init__(self, source: list[int], num_read: int) -> None:
        self.source = source
        self.position: int | None = 0
        self.run = 0
        self.num_read = num_read

    def catch_up(self, row: Sequence, max_suffix: int) -> None:
        for token in row.tokens[self.num_read :]:
            self.num_read += 1
            if (
                self.position is not None
                and self.position < len(self.source)
                and self.source[self.position] == token
            ):
                self.position += 1
                self.run += 1
            else:
                written = row.tokens[row.num_prompt : self.num_read]
                self.position, self.run = self._place_of(written[-max_suffix:]), 0

    def _place_of(self, written: list[int]) -> int | None:
        """Behind the only place where the shortest sufficient suffix of `written` stands, if there is one."""
        source = self.source
        ends = [end for end in range(1, len(source) + 1) if source[end - 1] == written[-1]]
        size = 1
        while len(ends) > 1 and size < len(written):
            size += 1
            ends = [end for end in ends if end >= size and source[end - size] == written[-size]]
        return ends[0] if len(ends) == 1 else None


class Sad(Drafter):
    """Chains copied from the input: an encoder-decoder's prompt, else `Request.prediction`, else the prompt.

    The suffix that finds the place has at most `max_suffix` tokens. Memory: one list of the input's length for each
    running row.
    """

    def __init__(
        self, *, is_aligned: bool, eos_token_ids: frozenset[int] = frozenset(), max_suffix: int = 16
    ) -> None:
        if max_suffix < 1:
            raise ValueError(f"{max_suffix=} must be at least 1")
        self._is_aligned = is_aligned
        self._eos = eos_token_ids
        self._max_suffix = max_suffix
        self._calibration = Calibration(lambda run: 0.95 - 0.25 * 0.6**run)
        self._rows: dict[int, _RowState] = {}

    def begin(self, row: Sequence) -> None:
        has_prediction = not self._is_aligned and row.prediction_ids is not None
        source = list((row.prediction_ids or ()) if has_prediction else row.prompt_ids)
        if self._eos and (not source or source[-1] not in self._eos):
            source.append(min(self._eos))
        self._rows[row.id] = _RowState(source, len(row.tokens))

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        trees = []
        for row, limit in zip(rows, max_nodes, strict=True):
            state = self._rows[row.id]
            state.catch_up(row, self._max_suffix)
            start = len(state.source) if state.position is None else state.position
            runs = (min(state.run + i, _MAX_RUN) for i in range(limit))
            guesses = [
                (token, self._calibration.estimate(run), run, None)
                for token, run in zip(state.source[start : start + limit], runs, strict=False)
            ]
            trees.append(chain(guesses, limit))
        return trees

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        self._calibration.record_all(tried(trees, verdicts))

    def end(self, row: Sequence) -> None:
        self._rows.pop(row.id)
