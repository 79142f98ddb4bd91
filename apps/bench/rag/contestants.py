"""Who takes part in `bench rag`, and the settings that each may choose from."""

from __future__ import annotations

from apps.bench.contestants import PROMPT_LOOKUP_TOKENS, THREADS, Contestant

BASELINE = "transformers greedy float32"
PLAIN = "echodraft none float32"
CONTESTANTS = (
    Contestant(BASELINE, "chat_transformers", THREADS, {"dtype": "float32"}),
    Contestant(
        "transformers prompt lookup float32",
        "chat_transformers",
        THREADS,
        {"dtype": "float32", "prompt_lookup_tokens": PROMPT_LOOKUP_TOKENS},
    ),
    Contestant(PLAIN, "chat_engine", THREADS, {"drafter": "none", "dtype": "float32"}),
    Contestant("echodraft llma float32", "chat_engine", THREADS, {"drafter": "llma", "dtype": "float32"}),
    Contestant(
        "echodraft prompt_lookup float32",
        "chat_engine",
        THREADS,
        {"drafter": "prompt_lookup", "dtype": "float32"},
    ),
    Contestant("echodraft copy float32", "chat_engine", THREADS, {"drafter": "copy", "dtype": "float32"}),
    Contestant("echodraft copy int8", "chat_engine", THREADS, {"drafter": "copy", "dtype": "int8"}),
    Contestant("CTranslate2 float32", "chat_ctranslate2", THREADS, {"compute_type": "float32"}),
    Contestant("CTranslate2 int8", "chat_ctranslate2", THREADS, {"compute_type": "int8"}),
)
