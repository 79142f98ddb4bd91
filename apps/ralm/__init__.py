"""Language models that retrieve again and again while they write, served faster with the same output.

`RetrievalLM` prepends the newest document every few tokens, `KnnLM` mixes in the nearest contexts at every token;
both speculate on what the retrieval will say (RaLMSpec, arXiv 2401.14021). Importing this package loads no model
library; asking for a class does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import RetrievalConfig, SpeculationConfig
    from .knn.building import build_datastore
    from .knn.config import KnnConfig
    from .knn.datastore import Datastore
    from .knn.knn_lm import KnnCompletion, KnnLM
    from .retrieval_lm import RetrievalCompletion, RetrievalLM

MODULES = {
    "Datastore": "knn.datastore",
    "KnnCompletion": "knn.knn_lm",
    "KnnConfig": "knn.config",
    "KnnLM": "knn.knn_lm",
    "RetrievalCompletion": "retrieval_lm",
    "RetrievalConfig": "config",
    "RetrievalLM": "retrieval_lm",
    "SpeculationConfig": "config",
    "build_datastore": "knn.building",
}
__all__ = [
    "Datastore",
    "KnnCompletion",
    "KnnConfig",
    "KnnLM",
    "RetrievalCompletion",
    "RetrievalConfig",
    "RetrievalLM",
    "SpeculationConfig",
    "build_datastore",
]


def __getattr__(name: str) -> Any:
    """Import on first use (PEP 562)."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{MODULES[name]}", __name__), name)
