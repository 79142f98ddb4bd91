"""The model that ships corrects, more or less boldly, and the drafter changes nothing."""

from __future__ import annotations

import pytest

from apps.gec import Corrector
from apps.gec.caution import Caution

TEXT = """She go to school every days. I has two dog and they likes to play in garden.
The informations was very usefull for my work. He don't knows where is the station.
We have been waiting since three hours. Their are many peoples in the street today.
Yesterday I go to the cinema with my freinds. The weather is nice and the sky is blue.
"""


@pytest.mark.parametrize("caution", [-1.0, 0.0, 2.0])
def test_a_correction_is_the_same_with_and_without_drafts(caution: float) -> None:
    copied = Corrector(caution=caution)
    assert copied.correct(TEXT).text == Corrector(caution=caution, drafter="none").correct(TEXT).text
    assert copied.stats.accepted > 0


@pytest.mark.parametrize(
    ("line", "doubted"),
    [
        ("The greatset exopsure of Kyocera.", " greatset exopsure"),
        ("It is fine.", ""),
        ("exopsure", "exopsure"),
    ],
)
def test_the_tokens_of_strange_words_are_doubted(line: str, doubted: str) -> None:
    corrector = Corrector(caution=1.0)
    caution = corrector._rewriter._request(line).transform
    assert isinstance(caution, Caution)
    ids = [caution.source_ids[place] for place in sorted(caution.doubted)]
    assert corrector.engine.tokenizer.decode(ids) == doubted


def test_a_bolder_corrector_edits_more_and_a_cautious_one_less() -> None:
    edits = [len(Corrector(caution=caution).correct(TEXT).edits) for caution in (-3.0, 0.0, 5.0)]
    assert edits[0] > edits[1] > edits[2]
