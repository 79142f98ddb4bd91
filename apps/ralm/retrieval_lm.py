"""A language model that asks for a document every few tokens, plainly or with speculation.

Knows which parts make one call. The output is the same in both modes, token for token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from core import Engine, SamplingParams
from core.types import FinishReason

from .cache import DocumentCache
from .config import Method, RetrievalConfig, SpeculationConfig
from .flare import Flare
from .generator import Generator
from .in_context import InContext
from .iter_retgen import IterRetGen
from .retrievers import Score, retriever_for
from .row import Row
from .scheduler import Scheduler
from .sequential import write_sequentially
from .speculation import Speculation
from .stats import RetrievalStats

Mode = Literal["speculative", "sequential"]
METHODS: dict[Method, type[Generator]] = {"in-context": InContext, "iter-retgen": IterRetGen, "flare": Flare}
#: The paper's length of a generation.
DEFAULT_PARAMS = SamplingParams(max_new_tokens=128)


@dataclass(frozen=True)
class RetrievalCompletion:
    """A finished text. `documents` are the passages it was written after, as (tokens written before, id or None);
    `stats` those of the whole call."""

    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    documents: list[tuple[int, str | None]]
    stats: RetrievalStats


class RetrievalLM:
    """Retrieval while writing over an engine and a retriever: every few tokens, with the last answer, or where the
    model is unsure (`config.method`).

    `retriever` is a FaissStore, a Bm25Index, a `retrievers.Retriever`, or any LangChain retriever or store whose
    passages can be scored (`score`, see `retrievers.LangChainRetriever`).

    Raises ValueError for a retriever that cannot be used, an unknown mode or an encoder-decoder model.
    """

    def __init__(
        self,
        engine: Engine,
        retriever: Any,
        *,
        mode: Mode = "speculative",
        config: RetrievalConfig | None = None,
        speculation: SpeculationConfig | None = None,
        score: Score | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode {mode!r} is unknown; choose one of {', '.join(get_args(Mode))}")
        if engine.target.is_encoder_decoder:
            raise ValueError(
                "an encoder-decoder model cannot read a document before its text; give a decoder-only one"
            )
        self.engine = engine
        self.retriever = retriever_for(retriever, score)
        self.mode = mode
        self.config = config or RetrievalConfig()
        self.speculation = speculation or SpeculationConfig()
        self.scheduler = Scheduler(self.speculation)

    @classmethod
    def from_pretrained(
        cls, name: str | Path, retriever: Any, *, drafter: str = "copy", device: str = "auto", dtype: str = "auto",
        **options: Any,
    ) -> Self:  # fmt: skip
        """Over a local model folder or hub id; see `core.Engine.from_pretrained`."""
        return cls(Engine.from_pretrained(name, drafter, device, dtype), retriever, **options)

    def generate(
        self, prompts: Sequence[str | Sequence[int]], params: SamplingParams | None = None
    ) -> list[RetrievalCompletion]:
        """Write all texts, in batches that share each call of the retriever; in the order of the prompts."""
        if isinstance(prompts, str):
            raise ValueError("prompts is one string; give a list of prompts")
        stats = RetrievalStats()
        generator, rows = self._prepare(prompts, params or DEFAULT_PARAMS)
        with closing(self._writing(generator, rows, stats)) as writing:
            for _ in writing:
                pass
        return [_completion(generator, row, stats) for row in rows]

    def stream(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams | None = None,
        stats: RetrievalStats | None = None,
    ) -> Iterator[str]:
        """Pieces of the text as they are settled. Closing the iterator ends it, and its thread with it."""
        generator, (row,) = self._prepare([prompt], params or DEFAULT_PARAMS)
        return self._pieces(generator, row, RetrievalStats() if stats is None else stats)

    def _pieces(self, generator: Generator, row: Row, stats: RetrievalStats) -> Iterator[str]:
        text = SettledText(generator, row)
        with closing(self._writing(generator, [row], stats)) as writing:
            for _ in writing:
                if piece := text.take():
                    yield piece

    def _prepare(
        self, prompts: Sequence[str | Sequence[int]], params: SamplingParams
    ) -> tuple[Generator, list[Row]]:
        generator = METHODS[self.config.method](self.engine, self.config, self.retriever.text)
        return generator, [generator.row(prompt, params, self._cache()) for prompt in prompts]

    def _cache(self) -> DocumentCache:
        cache = self.retriever.cache()
        cache.capacity = self.speculation.cache_size
        return cache

    def _writing(self, generator: Generator, rows: list[Row], stats: RetrievalStats) -> Any:
        if self.mode == "sequential":
            return write_sequentially(rows, generator, self.retriever, stats)
        speculation = Speculation(generator, self.retriever, self.speculation, stats, self.scheduler)
        return speculation.write(rows)


class SettledText:
    """The text of a row as far as no roll-back can reach it, piece by piece; see `core.text.TextStream`."""

    def __init__(self, generator: Generator, row: Row) -> None:
        self._stream = generator.text_stream(row)
        self._row = row
        self._num_read = 0

    def take(self) -> str:
        """What is new since the last call."""
        settled = self._row.num_settled
        for token in self._row.written[self._num_read : settled]:
            self._stream.push(token)
        self._num_read = settled
        return self._stream.take(self._row.is_settled)


def _completion(generator: Generator, row: Row, stats: RetrievalStats) -> RetrievalCompletion:
    assert row.finish_reason is not None, "the row is still being written"
    return RetrievalCompletion(generator.text(row), row.written, row.finish_reason, row.documents, stats)
