"""Edits rebuild the correction exactly, whatever the two strings are, and carry plain names."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.gec.edits import apply_edits, extract_edits, tokenize

LETTERS = st.text(alphabet="ab ,.'’-\n\t\r“A1é\u0301😀", max_size=30)
WORDS = st.lists(
    st.sampled_from(
        ["the", "The", "go", "goes", "alot", "a", "lot", ",", ".", "don't", "dont", "to", "is", "going"]
    ),
    max_size=12,
).map(" ".join)


@given(
    source=st.one_of(LETTERS, WORDS, st.text(max_size=20)),
    target=st.one_of(LETTERS, WORDS, st.text(max_size=20)),
)
@settings(max_examples=400, deadline=None)
def test_applying_the_edits_gives_the_target(source: str, target: str) -> None:
    edits = extract_edits(source, target)
    assert apply_edits(source, edits) == target
    assert all(source[e.start : e.end] == e.original for e in edits)
    assert all(e.original != e.replacement for e in edits)
    assert all(a.end <= b.start for a, b in itertools.pairwise(edits))


@given(text=st.text(max_size=60))
def test_tokens_are_cut_from_the_text_and_leave_only_whitespace(text: str) -> None:
    tokens = tokenize(text)
    assert all(text[t.start : t.end] == t.text for t in tokens)
    rest = "".join(
        text[a:b]
        for a, b in zip([0, *(t.end for t in tokens)], [*(t.start for t in tokens), len(text)], strict=True)
    )
    assert not rest.strip() or all(not c.isalnum() for c in rest)


@given(text=LETTERS)
def test_equal_texts_have_no_edits(text: str) -> None:
    assert extract_edits(text, text) == []


@pytest.mark.parametrize(
    ("source", "target", "types"),
    [
        ("She go to school.", "She goes to school.", ["R:VERB:SVA"]),
        ("She go to school yesterday.", "She went to school yesterday.", ["R:VERB:TENSE"]),
        ("He have two book.", "He has two books.", ["R:VERB:SVA", "R:NOUN:NUM"]),
        ("I seen alot of childs.", "I saw a lot of children.", ["R:VERB:TENSE", "R:ORTH", "R:NOUN:INFL"]),
        ("I recieve teh letter.", "I receive the letter.", ["R:SPELL", "R:SPELL"]),
        ("I depend of him.", "I depend on him.", ["R:PREP"]),
        ("I bought car.", "I bought a car.", ["M:DET"]),
        ("We saw the the sea.", "We saw the sea.", ["U:DET"]),
        ("i like it", "I like it.", ["R:ORTH", "M:PUNCT"]),
        ("Where you are going?", "Where are you going?", ["R:WO"]),
        ("He go now.", "He is going now.", ["R:VERB:TENSE"]),
        ("I enjoy to swim.", "I enjoy swimming.", ["R:VERB:FORM"]),
        ("I dont know.", "I don't know.", ["R:CONTR"]),
        ("the boys car", "the boy's car", ["R:NOUN:POSS"]),
        ("He is more tall.", "He is taller.", ["R:ADJ:FORM"]),
        ("He runs real fast.", "He runs really fast.", ["R:MORPH"]),
        ("This is an elephant.", "This is an aeroplane.", ["R:OTHER"]),
        ("However it rains.", "However, it rains.", ["M:PUNCT"]),
    ],
)
def test_plain_errors_have_their_usual_names(source: str, target: str, types: list[str]) -> None:
    assert [e.type for e in extract_edits(source, target)] == types


def test_a_shifted_edit_keeps_its_text() -> None:
    (edit,) = extract_edits("She go.", "She went.")
    moved = edit.shifted(10)
    assert (moved.start, moved.end, moved.original, moved.replacement) == (14, 16, "go", "went")


def test_a_very_long_unequal_region_stays_one_edit_and_is_quick() -> None:
    source, target = " ".join(["alpha"] * 3000), " ".join(["omega"] * 3000)
    edits = extract_edits(source, target)
    assert apply_edits(source, edits) == target
