"""The texts of a row that its decoder's tokens do not hold.

Knows rows. Does not know how drafters index texts.
"""

from __future__ import annotations

from core.types import Sequence


def texts_beside(row: Sequence) -> list[list[int]]:
    """An encoder-decoder's prompt, the sources, the prediction: what may be copied besides `row.tokens`."""
    texts = [] if row.tokens[: row.num_prompt] == row.prompt_ids else [row.prompt_ids]
    texts += row.source_ids
    return texts if row.prediction_ids is None else [*texts, row.prediction_ids]
