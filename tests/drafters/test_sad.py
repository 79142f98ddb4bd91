"""Input-guided aggressive decoding: copies from the start, and again behind a place that is unique."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import pytest

from core.drafters.sad import Sad
from core.types import Sequence
from tests.drafters.writing import EOS, row_of

SOURCE = [10, 11, 12, 13, 14, 15, 11, 12, 16, 17]


def drafts_after(row: Sequence, written: Seq[int]) -> list[int]:
    sad = Sad(is_aligned=True, eos_token_ids=frozenset({EOS}))
    sad.begin(row)
    row.tokens += written
    (tree,) = sad.propose([row], [50])
    assert list(tree.parents) == list(range(-1, len(tree) - 1))
    sad.end(row)
    return list(tree.tokens)


@pytest.mark.parametrize(
    ("written", "draft"),
    [
        ([], [*SOURCE, EOS]),
        ([10, 11], [*SOURCE[2:], EOS]),
        # A token that is nowhere in the input: nothing to go on with.
        ([10, 99], []),
        # Back at a token that stands in one place only.
        ([10, 99, 13], [*SOURCE[4:], EOS]),
        # 12 stands in two places, and so does 11 12.
        ([10, 99, 12], []),
        ([10, 99, 15, 11, 12], [*SOURCE[8:], EOS]),
        ([10, 99, 12, 16], [17, EOS]),
    ],
)
def test_the_copy_goes_on_where_the_last_tokens_are_unique(written: list[int], draft: list[int]) -> None:
    assert drafts_after(row_of(SOURCE), written) == draft


def test_a_decoder_only_model_copies_its_prediction() -> None:
    sad = Sad(is_aligned=False, eos_token_ids=frozenset({EOS}))
    row = row_of([3, 4], tokens=[3, 4], prediction=[20, 21])
    sad.begin(row)
    (tree,) = sad.propose([row], [9])
    assert list(tree.tokens) == [20, 21, EOS]
