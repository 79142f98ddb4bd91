"""The nouns of the core: parameters, requests, rows, draft trees, verdicts, completions.

Knows token ids and lengths. Does not know models, caches or drafters.

Legend of the shape letters used throughout `core/`:

    B  rows of the running batch            N  draft nodes of a row (without the pending token)
    T  query tokens of a pass, T = 1 + N    L  key slots that a pass looks at
    S  source (encoder) length              V  vocabulary
    H  key-value heads                      D  head dimension
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, fields
from typing import Literal, Protocol

import torch

#: Scores divided by less than this leave float32.
_LOWEST_TEMPERATURE = 1e-30

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True)
class SamplingParams:
    """How one request is decoded.

    `temperature` 0 is greedy, and so is anything below 1e-30. `top_k` 0, `top_p` 1 and `min_p` 0 switch their
    filter off. `stop` strings may span tokens; the text ends before the first of them. Special tokens are no part
    of the text, so no stop string can match them. Same `seed`, same tokens: whatever drafter ran and whoever
    shared the batch.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    max_new_tokens: int = 256
    stop: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError, naming the value and the remedy, for anything out of range."""
        self._require_integers()
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature={self.temperature} must be 0 (greedy) or greater, and finite")
        if self.temperature < _LOWEST_TEMPERATURE:
            object.__setattr__(self, "temperature", 0.0)
        if self.top_k < 0:
            raise ValueError(f"top_k={self.top_k} must be 0 (off) or greater")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p} must lie in (0, 1]; 1 switches it off")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p={self.min_p} must lie in [0, 1]; 0 switches it off")
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens={self.max_new_tokens} must be at least 1")
        if isinstance(self.stop, str):
            object.__setattr__(self, "stop", (self.stop,))
        if any(not s for s in self.stop):
            raise ValueError("a stop string is empty; leave it out")

    def _require_integers(self) -> None:
        """Other libraries' integers become Python's: the noise is named by numbers of unbounded size."""
        for name in ("top_k", "max_new_tokens", "seed"):
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, operator.index(value))
            except TypeError as error:
                raise ValueError(f"{name}={value} must be an integer") from error


@dataclass(frozen=True)
class DraftTree:
    """Guessed continuations of one row.

    `tokens[i]` follows `tokens[parents[i]]`, or the pending token where `parents[i] == -1`; a parent stands
    before its children. `scores[i]` estimates the probability that node i is accepted (path included) and
    feeds the budget; missing scores count as 1. `probs[i]` is the draft distribution [V] that node i was
    drawn from, needed only by textbook speculative sampling (missing: one-hot, as for copied drafts).
    `origins` is for the drafter that made the tree: it comes back unread in `observe`.
    """

    tokens: Seq[int] = ()
    parents: Seq[int] = ()
    scores: Seq[float] | None = None
    probs: Seq[torch.Tensor] | None = None
    origins: Seq[object] | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def prefix(self, num_nodes: int) -> DraftTree:
        """The first `num_nodes` nodes: a tree again, since parents stand before their children."""
        if num_nodes >= len(self.tokens):
            return self
        n = num_nodes
        return DraftTree(
            self.tokens[:n],
            self.parents[:n],
            None if self.scores is None else self.scores[:n],
            None if self.probs is None else self.probs[:n],
            None if self.origins is None else self.origins[:n],
        )

    def depths(self) -> list[int]:
        """Depth of every node; 1 is a child of the pending token."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return depths

    def limit_depth(self, max_depth: int) -> DraftTree:
        """The nodes no deeper than `max_depth`, order kept."""
        depths = self.depths()
        if not depths or max(depths) <= max_depth:
            return self
        keep = [i for i, depth in enumerate(depths) if depth <= max_depth]
        place = {-1: -1} | {old: new for new, old in enumerate(keep)}
        return DraftTree(
            [self.tokens[i] for i in keep],
            [place[self.parents[i]] for i in keep],
            None if self.scores is None else [self.scores[i] for i in keep],
            None if self.probs is None else [self.probs[i] for i in keep],
            None if self.origins is None else [self.origins[i] for i in keep],
        )

    def check(self) -> None:
        """Assert the order that the rest of the core relies on."""
        assert len(self.tokens) == len(self.parents), "every node needs a parent entry"
        assert all(-1 <= p < i for i, p in enumerate(self.parents)), "a parent must stand before its child"


EMPTY_TREE = DraftTree()


class LogitsTransform(Protocol):
    """What an application does to a row's logits before a token is chosen (caution bonus, KNN-LM mixture).

    Must be a function of the token path alone, so that plain decoding passes through the very same one.
    """

    needs_hidden: bool

    def apply(
        self, logits: torch.Tensor, prefix: Seq[int], tree: DraftTree, hidden: torch.Tensor | None
    ) -> torch.Tensor:
        """New logits [1+N, V]: row 0 follows `prefix` (all decoder tokens so far), row 1+i follows node i."""
        ...


@dataclass(frozen=True)
class Request:
    """One text to continue (decoder-only) or to rewrite (encoder-decoder).

    `prompt` is text or token ids. `sources` are texts or ids worth copying from, best first, and
    `source_weights` their relative weights (retrieval scores; 1 if missing). `prediction` guesses the whole
    output. None of these three ever changes the output, only the speed; ids in them that the model does not
    know are passed over.

    `noise_start` names the noise of the first token written, that of the others follows; None: its index in the
    row. Give the number of tokens written so far where one text is written in several requests, whose prompts
    differ: it is then sampled as if it had been written in one.
    """

    prompt: str | Seq[int]
    sources: tuple[str | Seq[int], ...] = ()
    source_weights: tuple[float, ...] | None = None
    prediction: str | Seq[int] | None = None
    params: SamplingParams | None = None
    transform: LogitsTransform | None = None
    noise_start: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.sources, str):
            object.__setattr__(self, "sources", (self.sources,))
        if self.noise_start is not None and self.noise_start < 0:
            raise ValueError(f"noise_start={self.noise_start} must be 0 or greater, or None")
        if self.source_weights is not None and len(self.source_weights) != len(self.sources):
            raise ValueError(
                f"{len(self.source_weights)} source_weights for {len(self.sources)} sources; give one for each"
            )


@dataclass
class PhaseSeconds:
    """Wall-clock seconds by phase of the loop; `sample` holds the walk as well."""

    join: float = 0.0
    propose: float = 0.0
    pack: float = 0.0
    forward: float = 0.0
    sample: float = 0.0
    commit: float = 0.0
    observe: float = 0.0

    @property
    def total(self) -> float:
        return sum(getattr(self, f.name) for f in fields(self))


@dataclass
class DecodeStats:
    """Counters of one request, or of an engine's life.

    `target_calls` counts passes of the target that this row took part in (prompt reading not included),
    `prompt_tokens` those of the prompts that were read and `reused_tokens` the share of them that the cache held
    already, `emitted` the tokens that came out, `near_ties` the tokens that `exact=True` looked at again and
    `near_tie_changes` those that changed. `seconds` is filled for an engine only: a pass is shared by its rows.
    """

    target_calls: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: int = 0
    near_ties: int = 0
    near_tie_changes: int = 0
    seconds: PhaseSeconds = field(default_factory=PhaseSeconds)

    @property
    def tokens_per_call(self) -> float:
        return self.emitted / self.target_calls if self.target_calls else 0.0


@dataclass(eq=False)
class Sequence:
    """Host-side truth of one row: its tokens and how many of them the cache holds.

    `tokens` are the decoder's: the prompt (decoder-only) or the start token (encoder-decoder), then what was
    written. The last one is *pending*: not in the cache yet. Invariant between steps of a running row:
    `cache_len == len(tokens) - 1`.
    """

    id: int
    request: Request
    params: SamplingParams
    prompt_ids: list[int]
    tokens: list[int]
    source_ids: list[list[int]]
    prediction_ids: list[int] | None = None
    max_tokens: int = 0
    cache_len: int = 0
    num_prompt: int = field(init=False)
    finish_reason: FinishReason | None = None
    stats: DecodeStats = field(default_factory=DecodeStats)

    def __post_init__(self) -> None:
        self.num_prompt = len(self.tokens)

    @property
    def output_ids(self) -> list[int]:
        return self.tokens[self.num_prompt :]

    @property
    def remaining(self) -> int:
        """Tokens that may still be written."""
        return self.max_tokens - (len(self.tokens) - self.num_prompt)

    @property
    def position(self) -> int:
        """What names the noise of the next token: its index in the row, or as the request says."""
        start = self.request.noise_start
        return len(self.tokens) if start is None else start + len(self.tokens) - self.num_prompt


@dataclass(frozen=True)
class Verdict:
    """What verification decided for one row: `path`, the accepted nodes from the root down, and the token
    that the target itself chose behind them."""

    path: tuple[int, ...]
    bonus: int


@dataclass(frozen=True)
class Completion:
    """A finished request. `token_ids` holds what was written, the end token included where it was written."""

    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    stats: DecodeStats
