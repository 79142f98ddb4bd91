"""KNN-LM over an engine and a datastore, plainly or with speculation; the output is the same, token for token.

Knows which parts make one call. Knows nothing of how neighbours are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from core import Engine, Request, SamplingParams
from core.text import TextStream
from core.types import FinishReason
from retrieval.storage.metric import Floats

from ..config import SpeculationConfig
from ..scheduler import Scheduler
from ..stats import RetrievalStats
from .cache import NeighbourCache
from .config import FOLLOWING, KnnConfig
from .datastore import Datastore, Neighbours
from .mixture import KnnTransform
from .speculation import KnnRow, KnnSpeculation

Mode = Literal["speculative", "sequential"]


@dataclass(frozen=True)
class KnnCompletion:
    """A finished text; `stats` are those of the whole call."""

    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    stats: RetrievalStats


class KnnLM:
    """KNN-LM (Khandelwal et al. 1911.00172): every token retrieves.

    `speculation.prefetch` counts the entries that follow each hit into the cache here, 10 by default. Raises
    ValueError for an unknown mode, an encoder-decoder model, or a datastore of another dimension.
    """

    def __init__(
        self,
        engine: Engine,
        datastore: Datastore,
        *,
        mode: Mode = "speculative",
        config: KnnConfig | None = None,
        speculation: SpeculationConfig | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode {mode!r} is unknown; choose one of {', '.join(get_args(Mode))}")
        if engine.target.is_encoder_decoder:
            raise ValueError("KNN-LM needs a decoder-only model")
        width = engine.target.config.hidden_size
        if datastore.dimension != width:
            raise ValueError(
                f"the datastore's keys have {datastore.dimension} dimensions, the model's states {width}; build it "
                "with this model"
            )
        self.engine = engine
        self.datastore = datastore
        self.mode = mode
        self.config = config or KnnConfig()
        self.speculation = speculation or SpeculationConfig(prefetch=FOLLOWING)
        self.scheduler = Scheduler(self.speculation)

    def generate(
        self, prompts: Sequence[str | Sequence[int]], params: SamplingParams | None = None
    ) -> list[KnnCompletion]:
        """Write all texts, in the order of the prompts.

        Raises ValueError, with the numbers, for a prompt that does not fit the model's context.
        """
        if isinstance(prompts, str):
            raise ValueError("prompts is one string; give a list of prompts")
        params = params or SamplingParams(max_new_tokens=128)
        ids = [self._encode(prompt, params) for prompt in prompts]
        return self._plainly(ids, params) if self.mode == "sequential" else self._speculating(ids, params)

    def _encode(self, prompt: str | Sequence[int], params: SamplingParams) -> list[int]:
        ids = self.engine.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        most = self.engine.target.max_length
        if not ids or len(ids) + params.max_new_tokens > most:
            raise ValueError(
                f"a prompt of {len(ids)} tokens and max_new_tokens={params.max_new_tokens} do not fit a context of "
                f"{most}; give at least one token, and fewer than that in all"
            )
        return ids

    def _plainly(self, ids: Sequence[list[int]], params: SamplingParams) -> list[KnnCompletion]:
        stats = RetrievalStats()

        def lookup(queries: Floats) -> list[Neighbours]:
            stats.calls += 1
            stats.queries += len(queries)
            with stats.phase("search"):
                return self.datastore.search(queries, self.config.k)

        transform = KnnTransform(lookup, self.config)
        requests = [Request(prompt, params=params, transform=transform, noise_start=0) for prompt in ids]
        with stats.phase("write"):
            done = self.engine.generate(requests)
        stats.seconds.write -= stats.seconds.search
        stats.retrievals = stats.steps = sum(len(one.token_ids) for one in done)
        return [KnnCompletion(one.text, one.token_ids, one.finish_reason, stats) for one in done]

    def _speculating(self, ids: Sequence[list[int]], params: SamplingParams) -> list[KnnCompletion]:
        stats = RetrievalStats()
        # A prefetch of 1 is the hit alone.
        following = self.speculation.prefetch if self.speculation.prefetch > 1 else 0
        rows = [
            KnnRow(
                prompt,
                params,
                NeighbourCache(self.datastore, following),
                TextStream(self.engine.tokenizer, params.stop),
            )
            for prompt in ids
        ]
        KnnSpeculation(
            self.engine, self.datastore, self.config, self.speculation, stats, self.scheduler
        ).write(rows)
        return [_completion(row, stats) for row in rows]


def _completion(row: KnnRow, stats: RetrievalStats) -> KnnCompletion:
    assert row.finish_reason is not None, "the row is still being written"
    return KnnCompletion(row.stream.text, row.written, row.finish_reason, stats)
