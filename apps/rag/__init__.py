"""Answers from documents, sooner: retrieval, citations, and drafts copied from the passages.

`ChatEchodraft` is LangChain's face of it, `python -m apps.rag` the command. Importing this package loads no model
library; asking for `ChatEchodraft` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .chat_model import ChatEchodraft

__all__ = ["ChatEchodraft"]


def __getattr__(name: str) -> Any:
    """Import on first use (PEP 562)."""
    if name != "ChatEchodraft":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .chat_model import ChatEchodraft

    return ChatEchodraft
