"""`Corrector`: text in, corrected text out, with nothing lost on the way.

Knows how sentences, model calls, the guard and the projection fit together. Does not know tokens or files.
The way of one sentence: cut it to pieces if it exceeds the budget, let the model rewrite each, refuse what `guard`
does not trust, carry the rest back with `projection`. Where a change would swallow the line break of a wrapped
sentence, its lines are corrected again, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from apps.drafter_options import read_options

from .config import CorrectorConfig
from .guard import problem
from .projection import project
from .results import Correction, CorrectionStats, SentenceCorrection
from .rewriter import Rewrite, Rewriter
from .segmentation import (
    Span,
    has_words,
    is_item,
    is_title,
    leads_on,
    lines,
    sentences,
    split_to_budget,
    strip,
)
from .vocabulary import english

if TYPE_CHECKING:
    from core import Engine

_DEFAULTS = CorrectorConfig()


@dataclass
class _Piece:
    """A span of a sentence that the model reads at once, and what became of it."""

    start: int
    end: int
    open_start: bool = False
    open_end: bool = False
    text: str | None = None  # None: not corrected yet, or the source stays


@dataclass
class _Draft:
    """A sentence on its way."""

    source: str
    pieces: list[_Piece]
    start: int = 0
    stats: CorrectionStats = field(default_factory=lambda: CorrectionStats(sentences=1))

    def finish(self) -> SentenceCorrection:
        """Put the pieces back where they stood."""
        parts: list[str] = []
        at = 0
        for piece in self.pieces:
            own = self.source[piece.start : piece.end]
            parts += (self.source[at : piece.start], own if piece.text is None else piece.text)
            at = piece.end
        corrected = "".join([*parts, self.source[at:]])
        self.stats.changed = int(corrected != self.source)
        return SentenceCorrection(self.source, corrected, self.start, self.stats)


class Corrector:
    """Corrects English grammar with any encoder-decoder or decoder-only model.

    Keyword names, which stay: `model` (folder or hub id; None: the shipped one), `drafter`, `device`, `dtype`,
    `caution` (bonus in logits for copying the source: precision against recall; below 0 for more edits), `prompt`
    (template with `{text}`), `temperature`, `seed`, `threads`, `max_rows`, `max_source_tokens`, `language`,
    `drafter_options` (`NAME=VALUE` texts), and `engine`, a running `core.Engine` to use instead of loading one.
    Raises ValueError for a setting or a model that cannot be.
    `stats` counts everything corrected so far.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        drafter: str = _DEFAULTS.drafter,
        device: str = _DEFAULTS.device,
        dtype: str = _DEFAULTS.dtype,
        caution: float = _DEFAULTS.caution,
        *,
        prompt: str | None = _DEFAULTS.prompt,
        temperature: float = _DEFAULTS.temperature,
        seed: int = _DEFAULTS.seed,
        threads: int | None = _DEFAULTS.threads,
        max_rows: int = _DEFAULTS.max_rows,
        max_source_tokens: int = _DEFAULTS.max_source_tokens,
        language: str = _DEFAULTS.language,
        drafter_options: Sequence[str] = _DEFAULTS.drafter_options,
        engine: Engine | None = None,
    ) -> None:
        self.config = CorrectorConfig(
            None if model is None else str(model), drafter, device, dtype, caution, prompt, temperature, seed,
            threads, max_rows, max_source_tokens, language, drafter_options,
        )  # fmt: skip
        self.stats = CorrectionStats()
        self.engine = load_engine(self.config) if engine is None else engine
        self._rewriter = Rewriter(self.engine, self.config)
        self._is_english = self.config.language == "en"

    @classmethod
    def from_config(cls, config: CorrectorConfig) -> Corrector:
        """A corrector with these settings."""
        return cls(**asdict(config))

    def correct(self, text: str) -> Correction:
        """Correct one text of any length."""
        return self.correct_batch([text])[0]

    def correct_batch(self, texts: Sequence[str]) -> list[Correction]:
        """Correct many texts, their sentences together; one correction per text, in order."""
        spans = [sentences(text, self.config.language) for text in texts]
        places = [(text, span) for text, own in zip(texts, spans, strict=True) for span in own]
        done = iter(self._correct_spans(places))
        return [
            Correction(text, tuple(next(done) for _ in own)) for text, own in zip(texts, spans, strict=True)
        ]

    def correct_stream(self, text: str) -> Iterator[SentenceCorrection]:
        """The sentences of `text`, in order, as they are done: the first alone, then in growing groups."""
        spans = sentences(text, self.config.language)
        at, size = 0, 1
        while at < len(spans):
            group = spans[at : at + size]
            yield from self._correct_spans([(text, span) for span in group])
            at, size = at + size, min(size * 4, 2 * self.config.max_rows)

    def correct_sentences(self, sources: Sequence[str]) -> list[SentenceCorrection]:
        """Correct strings that are sentences already; one correction each, in order."""
        return self._correct_spans([(source, (0, len(source))) for source in sources])

    def _correct_spans(self, places: Sequence[tuple[str, Span]]) -> list[SentenceCorrection]:
        """Correct sentences where they stand in their texts."""
        drafts = []
        for text, span in places:
            source = text[slice(*span)]
            draft = _Draft(source, self._pieces(source), span[0])
            if draft.pieces:
                is_part = is_item(text, span)
                draft.pieces[0].open_start |= is_part
                draft.pieces[-1].open_end |= is_part or is_title(text, span) or leads_on(text, span)
            drafts.append(draft)
        return self._finish(drafts)

    def _finish(self, drafts: list[_Draft]) -> list[SentenceCorrection]:
        """Correct all drafts together."""
        began = perf_counter()
        work = [(draft, piece) for draft in drafts for piece in draft.pieces]
        for draft in drafts:
            draft.stats.skipped = int(not draft.pieces)
        again = self._run(work)
        if again:
            self._run(_by_line(again))
        finished = [draft.finish() for draft in drafts]
        for sentence in finished:
            self.stats.add(sentence.stats)
        self.stats.seconds += perf_counter() - began
        return finished

    def _pieces(self, source: str) -> list[_Piece]:
        """What the model is to read of `source`; nothing where there are no words, or none of English."""
        if not has_words(source) or (self._is_english and not english().knows(source)):
            return []
        start, end = strip(source, 0, len(source))
        spans: list[Span] = [(start, end)]
        budget, count = self._rewriter.budget, self._rewriter.count
        # So long a text is over the budget with any tokenizer that cuts words, and need not be counted whole.
        if end - start > 16 * budget or count(source[start:end]) > budget:
            spans = split_to_budget(source, start, end, count, budget)
        last = len(spans) - 1
        pieces = [_Piece(a, b, open_start=i > 0, open_end=i < last) for i, (a, b) in enumerate(spans)]
        return [piece for piece in pieces if has_words(source[piece.start : piece.end])]

    def _run(self, work: list[tuple[_Draft, _Piece]]) -> list[tuple[_Draft, _Piece]]:
        """Correct the pieces; returns those whose line breaks had no place in the output."""
        if not work:
            return []
        rewrites = self._rewriter.rewrite([d.source[p.start : p.end] for d, p in work])
        return [
            (draft, piece)
            for (draft, piece), rewrite in zip(work, rewrites, strict=True)
            if not _settle(draft, piece, rewrite, is_english=self._is_english)
        ]


def _settle(draft: _Draft, piece: _Piece, rewrite: Rewrite, *, is_english: bool) -> bool:
    """Take the rewrite into the piece, or keep the source; False if a line break would be lost."""
    draft.stats.add(rewrite.stats)
    reason = problem(rewrite.seen, rewrite.output, rewrite.finish_reason)
    if reason is not None:
        draft.stats.kept[reason] += 1
        return True
    source = draft.source[piece.start : piece.end]
    found = project(
        source,
        rewrite.seen,
        rewrite.output,
        open_start=piece.open_start,
        open_end=piece.open_end,
        is_english=is_english,
    )
    if found is None:
        return False
    piece.text = found.text
    draft.stats.dropped += found.dropped
    return True


def _by_line(work: list[tuple[_Draft, _Piece]]) -> list[tuple[_Draft, _Piece]]:
    """Replace each piece by its lines; returns the new pieces."""
    renewed: list[tuple[_Draft, _Piece]] = []
    for draft, piece in work:
        spans = lines(draft.source, piece.start, piece.end)
        last = len(spans) - 1
        own = [
            _Piece(a, b, open_start=i > 0 or piece.open_start, open_end=i < last or piece.open_end)
            for i, (a, b) in enumerate(spans)
        ]
        at = draft.pieces.index(piece)
        draft.pieces[at : at + 1] = own
        renewed += [(draft, p) for p in own if has_words(draft.source[p.start : p.end])]
    return renewed


def load_engine(config: CorrectorConfig) -> Engine:
    """The engine for these settings. Raises ValueError for a model that cannot be had, with a remedy."""
    name = config.model_name  # a path that leads nowhere is told before torch is imported
    import torch
    from transformers.utils import logging

    from core import Engine

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    shows_progress = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # a second of loading needs no bar
    try:
        return Engine.from_pretrained(
            name,
            drafter=config.drafter,
            device=config.device,
            dtype=config.dtype,
            drafter_options=read_options(config.drafter_options),
            max_rows=config.max_rows,
        )
    except OSError as error:  # transformers says so of hub ids that do not exist or cannot be reached
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(
            f"the model {name!r} cannot be loaded: {first} Give --model a folder, or a hub id with a network."
        ) from error
    finally:
        if shows_progress:
            logging.enable_progress_bar()
