"""Grammar correction by speculative decoding. `Corrector` is the Python face (`CorrectorPool` in
several processes), `python -m apps.gec` the command.

Importing this package loads no model library; asking for `Corrector` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .corrector import Corrector
    from .corrector_pool import CorrectorPool
    from .results import Correction, CorrectionStats, SentenceCorrection

__all__ = ["Correction", "CorrectionStats", "Corrector", "CorrectorPool", "SentenceCorrection"]

_HOMES = {
    "Corrector": "corrector",
    "CorrectorPool": "corrector_pool",
    "Correction": "results",
    "CorrectionStats": "results",
    "SentenceCorrection": "results",
}


def __getattr__(name: str) -> Any:
    """Import on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rapidfuzz":
            raise
        raise ImportError(f"{error}; pip install 'echodraft[gec]'") from error
