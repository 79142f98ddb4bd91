"""Gold answers as the files of question sets write them."""

from __future__ import annotations

from typing import Any


def gold_answers(value: Any) -> tuple[str, ...]:
    """One text, a list of texts, or SQuAD's `{"text": [...], ...}`. Raises TypeError for anything else."""
    texts = value.get("text") if isinstance(value, dict) else [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f'{value!r:.60} are no answers; write a list of texts, or SQuAD\'s {{"text": [...]}}')
    return tuple(texts)
