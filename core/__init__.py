"""Speculative decoding with output identical to plain decoding. See `core.engine` for the loop."""

from core.engine import Engine
from core.targets.base import UnsupportedModelError
from core.types import Completion, DecodeStats, DraftTree, Request, SamplingParams

__all__ = [
    "Completion",
    "DecodeStats",
    "DraftTree",
    "Engine",
    "Request",
    "SamplingParams",
    "UnsupportedModelError",
]
