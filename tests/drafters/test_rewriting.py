"""The pointer into the source survives edits, and words are known by their pieces."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from hypothesis import assume, given
from hypothesis import strategies as st

from core.drafters.correction_memory import CorrectionMemory
from core.drafters.rewriting import DELETION_WINDOW, Rewriting
from core.drafters.vocabulary import Vocabulary
from tests.drafters.copying import TOKENS


def after(source: Seq[int], written: Seq[int], vocabulary: Vocabulary | None = None) -> list[int]:
    """Where the copy may go on."""
    rewriting = Rewriting(source, CorrectionMemory(), vocabulary)
    places = rewriting.places
    for token in written:
        places = rewriting.advance(places, token)
    return [place.position for place in places]


def test_copying_moves_the_pointer_along() -> None:
    source = [10, 11, 12, 13]
    for length in range(1, 5):
        assert after(source, source[:length]) == [length]


def test_a_replaced_token_leaves_the_place_behind_it() -> None:
    assert 2 in after([10, 11, 12, 13, 14], [10, 99])
    assert after([10, 11, 12, 13, 14], [10, 99, 12]) == [3]


def test_an_inserted_token_leaves_the_place_in_front_of_it() -> None:
    assert 1 in after([10, 11, 12, 13], [10, 99])
    assert after([10, 11, 12, 13], [10, 99, 11]) == [2]


def test_deleted_tokens_are_skipped() -> None:
    source = list(range(10, 40))
    for gap in range(1, DELETION_WINDOW + 1):
        written = [10, 11, source[2 + gap]]
        assert after(source, written)[0] == 3 + gap
        assert after(source, [*written, source[3 + gap]]) == [4 + gap]


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """A source without repeats, what was written up to one token behind one edit, and where the copy goes on."""
    source = list(range(100, 100 + draw(st.integers(6, 20))))
    start = draw(st.integers(0, len(source) - 4))
    removed, added = draw(st.sampled_from([(1, 1), (0, 1), (1, 0), (2, 0), (2, 1)]))
    new = [500 + i for i in range(added)]
    return source, [*source[:start], *new, source[start + removed]], start + removed + 1


@given(edit=edits())
def test_one_token_behind_an_edit_the_pointer_is_right_again(edit: tuple[list[int], list[int], int]) -> None:
    source, written, goes_on = edit
    assert after(source, written)[0] == goes_on


@given(source=st.lists(TOKENS, max_size=12), written=st.lists(TOKENS, max_size=20))
def test_the_places_stay_inside_the_source(source: list[int], written: list[int]) -> None:
    for length in range(len(written) + 1):
        positions = after(source, written[:length])
        assert all(0 <= position <= len(source) for position in positions)
        assert len(set(positions)) == len(positions)


#: "The dog dev|elo|pped well." and two words that are not in it.
PIECES = [
    "<pad>",
    "<s>",
    "</s>",
    "The",
    "\u0120dog",
    "\u0120dev",
    "elo",
    "pped",
    "\u0120well",
    ".",
    "the",
    "\u0120develop",
]
WORDS = Vocabulary(PIECES)


def test_behind_a_replaced_word_the_copy_goes_on_at_the_next_word() -> None:
    source = [3, 4, 5, 6, 7, 8, 9]
    places = after(source, [3, 4, 11], WORDS)
    assert places[0] == 5
    assert after(source, [3, 4, 11, 8], WORDS) == [6]


def test_a_vocabulary_knows_where_words_begin() -> None:
    starts = [WORDS.starts_word(before, token) for before, token in [(3, 4), (4, 5), (5, 6), (6, 7), (8, 9)]]
    assert starts == [True, True, False, False, True]
    assert WORDS.starts_word(9, 500), "an unknown piece is a word of its own"


def test_a_vocabulary_finds_other_cases_and_near_spellings() -> None:
    assert WORDS.recased("the") == [3]
    assert WORDS.recased("The") == [10]
    assert WORDS.alike("\u0120develo") == [11]
    assert WORDS.alike("\u0120devleop") == [11]
    assert WORDS.alike("\u0120develop") == []
    assert WORDS.alike("develo") == [], "without a leading space it is another word"


@given(word=st.text("abcd", min_size=4, max_size=8), data=st.data())
def test_one_wrong_letter_is_always_found(word: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(word) - 1))
    kind = data.draw(st.sampled_from(["drop", "double", "other", "swap"]))
    wrong = {
        "drop": word[:place] + word[place + 1 :],
        "double": word[:place] + word[place] + word[place:],
        "other": word[:place] + "e" + word[place + 1 :],
        "swap": word[:place] + word[place : place + 2][::-1] + word[place + 2 :],
    }[kind]
    assume(wrong != word and len(wrong) >= 4)
    assert Vocabulary(["x", word]).alike(wrong) == [1]
