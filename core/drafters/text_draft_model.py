"""A draft model with another tokenizer than the target's: the text goes between them.

What was written is split into the draft model's tokens; what it drafts becomes text again, and that the target's
tokens (string-level exact match, Timor et al. 2502.05202). Nothing of it can change the
output: a draft that was split as the target would not have split it is refused, no more.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.drafters.base import Drafter
from core.drafters.beam import descend
from core.drafters.calibration import Calibration
from core.drafters.draft_model import load_draft
from core.drafters.draft_slots import OwnSlots
from core.drafters.growth import chain
from core.drafters.model_drafting import ModelDrafter
from core.drafters.translation import Splitter, decode, text_behind, tokens_behind
from core.drafters.trials import tried
from core.targets.base import PassOutput, Target
from core.text import TextStream
from core.types import EMPTY_TREE, DraftTree, SamplingParams, Sequence, Verdict

#: Places beyond this are estimated alike.
_MAX_PLACE = 8


@dataclass(eq=False)
class _Translated:
    """A row as the draft model has it (`inner`), and what keeps it in step: the target's text so far, how many of the
    target's tokens are in it, and what was drafted last."""

    inner: Sequence
    stream: TextStream
    splitter: Splitter
    num_read: int = 0
    drafted: DraftTree = field(default=EMPTY_TREE)
    drafted_behind: list[int] = field(default_factory=list)


class TextDraftModel(Drafter):
    """`model` is the draft model's folder or hub id; or a target, with its `tokenizer`.

    It drafts a chain of its likeliest tokens, at most `max_depth`: noise is named by token ids, which mean other
    tokens here, so nothing can be gained by it. `is_paced` is that of `TreeDrafter`. Memory: the model, its cache for
    the rows that run and `max_parked` others, and each row's text. Raises ValueError for a model of another kind.
    """

    def __init__(
        self,
        target: Target,
        model: str | Path | Target,
        *,
        tokenizer: Any = None,
        dtype: str | None = None,
        max_depth: int = 8,
        is_paced: bool = True,
        max_parked: int | None = None,
    ) -> None:
        draft, loaded = load_draft(target, model, dtype)
        self._own_tokenizer = loaded if tokenizer is None else tokenizer
        if self._own_tokenizer is None:
            raise ValueError(
                "text_draft_model needs the draft model's tokenizer; give tokenizer=, or model=PATH"
            )
        self._tokenizer: Any = None
        self._draft = draft
        self._ends = target.eos_token_ids
        slots = OwnSlots(draft, max_parked)
        # The draft model drafts for itself, in its own tokens.
        self._inner = ModelDrafter(draft, slots, num_children=1, max_depth=max_depth, is_paced=is_paced)
        self._calibration = Calibration(_prior)
        self._rows: dict[int, _Translated] = {}

    def read_vocabulary(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def begin(self, row: Sequence) -> None:
        assert self._tokenizer is not None, "the engine tells the target's tokenizer first"
        prompt = self._own_tokenizer.encode(decode(self._tokenizer, row.prompt_ids))
        if not self._draft.is_encoder_decoder:
            while prompt and prompt[-1] in self._draft.eos_token_ids:
                prompt.pop()
        if not prompt:
            return  # Nothing that the draft model could go on from.
        start = self._draft.start_tokens(prompt)
        inner = Sequence(row.id, row.request, SamplingParams(), prompt, start, [])
        self._rows[row.id] = _Translated(inner, TextStream(self._tokenizer), Splitter(self._own_tokenizer))
        self._inner.begin(inner)

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        known = [(row, self._rows[row.id]) for row in rows if row.id in self._rows]
        for row, translated in known:
            self._read(row, translated)
        limits = {row.id: limit for row, limit in zip(rows, max_nodes, strict=True)}
        trees = (
            self._inner.propose([t.inner for _, t in known], [limits[row.id] for row, _ in known])
            if known
            else []
        )
        found: dict[int, DraftTree] = {}
        for (row, translated), tree in zip(known, trees, strict=True):
            translated.drafted, translated.drafted_behind = tree, list(translated.inner.tokens)
            found[row.id] = self._in_targets_tokens(row, translated, limits[row.id])
        return [found.get(row.id, EMPTY_TREE) for row in rows]

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        self._calibration.record_all(tried(trees, verdicts))
        known = [(row, self._rows[row.id]) for row in rows if row.id in self._rows]
        inner_verdicts = []
        for row, translated in known:
            self._read(row, translated)
            behind, tokens = translated.drafted_behind, translated.inner.tokens
            path = (
                descend(translated.drafted, tokens[len(behind) :]) if tokens[: len(behind)] == behind else []
            )
            inner_verdicts.append(Verdict(tuple(path), -1))
        if known:
            inner = [translated.inner for _, translated in known]
            self._inner.observe(inner, [t.drafted for _, t in known], inner_verdicts, output)

    def end(self, row: Sequence) -> None:
        translated = self._rows.pop(row.id, None)
        if translated is not None:
            self._inner.end(translated.inner)

    def _read(self, row: Sequence, translated: _Translated) -> None:
        """Bring the draft model's tokens up to what the target has written."""
        new = row.output_ids[translated.num_read :]
        if not new:
            return
        for token in new:
            translated.stream.push(token)
        translated.num_read += len(new)
        inner = translated.inner
        inner.tokens[inner.num_prompt :] = translated.splitter.split(translated.stream.text)

    def _in_targets_tokens(self, row: Sequence, translated: _Translated, limit: int) -> DraftTree:
        """The draft as a chain of the target's tokens; the last one may be the beginning of a longer one."""
        drafted = list(translated.drafted.tokens)
        is_end = bool(drafted) and drafted[-1] in self._draft.eos_token_ids
        text = text_behind(self._own_tokenizer, translated.inner.output_ids, drafted)
        tokens = tokens_behind(self._tokenizer, row.output_ids, text) if text else []
        whole = len(tokens) if is_end else len(tokens) - 1
        if is_end and self._tokenizer.eos_token_id in self._ends:
            tokens.append(self._tokenizer.eos_token_id)
        cells = [(min(place, _MAX_PLACE), place < whole) for place in range(len(tokens))]
        guesses = [
            (token, self._calibration.estimate(cell), cell, None)
            for token, cell in zip(tokens, cells, strict=True)
        ]
        return chain(guesses, limit)


def _prior(cell: tuple[int, bool]) -> float:
    _, is_whole = cell
    return 0.7 if is_whole else 0.4
