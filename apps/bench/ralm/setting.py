"""What to measure, over what: passages, a model, an engine. Knows files and how engines are made."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core import Engine

RANDOM = "random"
SHIPPED = Path("data/models/chat-small")
PARTS = ("latency", "real", "knn", "grid")


@dataclass(frozen=True)
class RalmBench:
    """What to measure. `model` None is the shipped one, or where none is "random": a small random Llama over
    `tokenizer`, whose text is noise and whose times are real. `ratios` are b/a, prices of a retrieval in steps of
    the model; the grid has prices and hit rates of its own. The flat index has `vectors` vectors, of `embedded`
    passages and random ones, the HNSW index `graph` of them; KNN-LM's datastore has `entries` contexts, of
    `hidden` dimensions if the model is random. Every part takes about `minutes`."""

    passages: tuple[Path, ...]
    model: str | None = None
    tokenizer: str = "data/models/gec-small"
    parts: tuple[str, ...] = PARTS
    ratios: tuple[float, ...] = (40.0, 3.0, 1.0, 0.25)
    grid_ratios: tuple[float, ...] = (40.0, 10.0, 3.0, 1.0, 0.25)
    hit_rates: tuple[float, ...] = (0.6, 0.8, 0.95)
    minutes: float = 3.0
    prompts: int = 5
    max_tokens: int = 128
    drafter: str = "copy"
    vectors: int = 500_000
    embedded: int = 1_000
    graph: int = 50_000
    entries: int = 2_000_000
    hidden: int = 256
    neighbours: tuple[int, ...] = (1, 1024)

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        for name in ("prompts", "max_tokens", "vectors", "embedded", "graph", "entries", "hidden"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if not self.passages:
            raise ValueError("there are no passages; give --passages, JSONL files of texts")
        if min((*self.ratios, 1)) < 0 or not self.minutes > 0:
            raise ValueError("ratios must be 0 or greater, minutes greater than 0")
        if unknown := [part for part in self.parts if part not in PARTS]:
            raise ValueError(f"part {unknown[0]!r} is unknown; choose of {', '.join(PARTS)}")

    @property
    def chosen_model(self) -> str:
        """Folder or id of the model, or "random"."""
        return self.model or (str(SHIPPED) if SHIPPED.is_dir() else RANDOM)

    @property
    def model_name(self) -> str:
        """Its short name."""
        return Path(self.chosen_model).name


def read_passages(paths: Sequence[Path]) -> list[str]:
    """The texts of JSONL files, plain or gzipped. Raises FileNotFoundError where one is not there."""
    texts: list[str] = []
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} is not here; give JSONL files of passages with --passages")
        opener: Any = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8") as lines:
            texts += [json.loads(line)["text"] for line in lines]
    return texts


def prompts_of(texts: Sequence[str], count: int) -> list[str]:
    """The beginnings of passages, evenly spread."""
    step = max(1, len(texts) // count)
    return [" ".join(text.split()[:40]) for text in texts[::step]][:count]


def engines(bench: RalmBench) -> tuple[Engine, Engine]:
    """The engine of every day, and one that keeps nothing between documents; one model."""
    engine = engine_of(bench, bench.drafter)
    from core import Engine

    return engine, Engine(engine.target, engine.tokenizer, bench.drafter, prefix_rows=0)


def engine_of(bench: RalmBench, drafter: str, hidden: int = 64) -> Engine:
    """An engine over the chosen model, `hidden` wide if it is random."""
    from core import Engine

    if bench.chosen_model != RANDOM:
        return Engine.from_pretrained(bench.chosen_model, drafter)
    from transformers import AutoTokenizer

    from apps.bench.random_model import random_llama
    from core.targets.registry import target_for

    tokenizer = AutoTokenizer.from_pretrained(bench.tokenizer)
    return Engine(target_for(random_llama(len(tokenizer), hidden)), tokenizer, drafter)
