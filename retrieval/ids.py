"""Names for passages that any store would give them; no storage."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

NAMESPACE = uuid.UUID("6f1d2c0e-5d9a-5c7b-9b1e-8a2f3c4d5e6f")


def metadata_text(metadata: Mapping[str, Any]) -> str:
    """Metadata as compact JSON; what cannot be JSON raises ValueError. Tuples become lists."""
    if wrong := [key for key in metadata if not isinstance(key, str)]:
        raise ValueError(f"metadata key {wrong[0]!r} is a {type(wrong[0]).__name__}; make it a string")
    try:
        return json.dumps(metadata, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"metadata {metadata!r:.200} is not JSON ({error}); turn values into text"
        ) from error


def content_id(text: str, metadata: Mapping[str, Any] | None = None) -> str:
    """UUIDv5 of a passage's text and metadata: the same passage has the same id in every store.

    The metadata belongs to it so that a sentence that stands in two documents is two passages, each of
    which can be cited and deleted on its own. The order of the metadata's keys does not matter.
    """
    ordered = json.loads(metadata_text(metadata or {}))
    canonical = json.dumps([text, ordered], ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return str(uuid.uuid5(NAMESPACE, valid_text(canonical)))


def valid_text(text: str) -> str:
    """The text itself; ValueError where it cannot be written as UTF-8 (lone surrogates)."""
    if not isinstance(text, str):
        raise ValueError(f"{text!r:.80} is a {type(text).__name__}; passages, queries and ids are str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"text {text!r:.80} holds lone surrogates; decode it with errors='replace'"
        ) from error
    return text
