"""Who takes part in `bench gec`, and the settings that each may choose from: literal lists, a line each.

A setting is a worker process of its own. Every contestant runs with the one that was fastest for it on the first
sentences of a set, for single sentences and for batches apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BOTH = ("single", "batch")


@dataclass(frozen=True)
class Setting:
    """Threads of the process's OpenMP pool, further options of the loader, and the modes it is worth trying in."""

    label: str
    threads: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    modes: tuple[str, ...] = BOTH


@dataclass(frozen=True)
class Contestant:
    """One row of the table. `kind` is a name of `apps.bench.worker.LOADERS`."""

    name: str
    kind: str
    settings: tuple[Setting, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


THREADS = (
    Setting("1 thread", threads=1),
    Setting("2 threads", threads=2),
)
# To try another way to run our engine, add a line; `options` go to `apps.bench.ours.EngineRunner`, or with `workers`
# to `apps.bench.pooled.PooledRunner`.
OUR_SETTINGS = (*THREADS, Setting("2 workers x 1 thread", 1, {"workers": 2}, modes=("batch",)))
# Two workers want batches small enough for both to have some.
CTRANSLATE2_SETTINGS = (
    Setting("1 worker x 1 thread", 1, modes=("single",)),
    Setting("1 worker x 2 threads", 2),
    Setting("2 workers x 1 thread, 16 rows", 1, {"workers": 2, "batch": 16}, modes=("batch",)),
    Setting("2 workers x 1 thread, 32 rows", 1, {"workers": 2, "batch": 32}, modes=("batch",)),
)

PROMPT_LOOKUP_TOKENS = 10  # the value of transformers' own documentation
BASELINE = "transformers greedy float32"
CONTESTANTS = (
    Contestant(BASELINE, "transformers", THREADS, {"dtype": "float32"}),
    Contestant("transformers greedy bfloat16", "transformers", THREADS, {"dtype": "bfloat16"}),
    Contestant(
        "transformers prompt lookup float32",
        "transformers",
        THREADS,
        {"dtype": "float32", "prompt_lookup_tokens": PROMPT_LOOKUP_TOKENS},
    ),
    Contestant("echodraft copy float32", "engine", OUR_SETTINGS, {"drafter": "copy", "dtype": "float32"}),
    Contestant("echodraft copy bfloat16", "engine", OUR_SETTINGS, {"drafter": "copy", "dtype": "bfloat16"}),
    Contestant("echodraft copy int8", "engine", OUR_SETTINGS, {"drafter": "copy", "dtype": "int8"}),
    Contestant(
        "echodraft prompt_lookup float32",
        "engine",
        THREADS,
        {"drafter": "prompt_lookup", "dtype": "float32"},
    ),
    Contestant("echodraft none float32", "engine", THREADS, {"drafter": "none", "dtype": "float32"}),
    Contestant("CTranslate2 float32", "ctranslate2", CTRANSLATE2_SETTINGS, {"compute_type": "float32"}),
    Contestant("CTranslate2 int8", "ctranslate2", CTRANSLATE2_SETTINGS, {"compute_type": "int8"}),
)
