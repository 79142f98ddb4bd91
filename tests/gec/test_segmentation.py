"""Spans cover every word once, in order, and never touch what lies between sentences."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from apps.gec.segmentation import has_words, is_item, is_title, lines, sentences, split_to_budget

PIECES = st.lists(
    st.sampled_from(
        ["The dog barks", "mr. Smith", "e.g.", "A", "\u2028", "\x85", "\r\n", "\n", "\n\n", "\t", " ", "  ", ". ", "! ",
         "- ", "1. ", "(2) ", "> ", "“", "”", '"', "…", "😀", "é", "\ufeff", "\ud800", "A\u2028.", "a very long line "]
    ),
    max_size=25,
).map("".join)  # fmt: skip
ANY = st.one_of(PIECES, st.text(alphabet=st.characters(), max_size=60))


def texts(text: str) -> list[str]:
    return [text[a:b] for a, b in sentences(text)]


@given(text=ANY)
@settings(max_examples=400, deadline=None)
def test_spans_are_ordered_and_only_space_and_markers_lie_between(text: str) -> None:
    # Tables and code have tests of their own.
    assume(
        not set(text) & set("|`~") and not re.search(r"(^|[\n\r\v\f\x85\u2028\u2029])( {4}| {0,3}\t)", text)
    )
    at = 0
    between = ""
    for start, end in sentences(text):
        assert at <= start < end
        between += text[at:start]
        at = end
    between += text[at:]
    assert not has_words(between)


@given(text=ANY, budget=st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_pieces_of_a_long_sentence_lose_nothing_but_space(text: str, budget: int) -> None:
    pieces = split_to_budget(text, 0, len(text), len, budget)
    squeezed = "".join(text[a:b] for a, b in pieces)
    assert "".join(squeezed.split()) == "".join(text.removeprefix("\ufeff").split()) or "\ufeff" in text
    assert all(b - a <= budget for a, b in pieces)
    assert all(x[1] <= y[0] for x, y in itertools.pairwise(pieces))


def test_abbreviations_and_figures_do_not_end_a_sentence() -> None:
    assert texts("I saw Mr. Smith. He paid 3.50 euros, e.g. in coins. Ok?") == [
        "I saw Mr. Smith.",
        "He paid 3.50 euros, e.g. in coins.",
        "Ok?",
    ]


def test_a_wrapped_sentence_is_one_sentence() -> None:
    text = (
        "This is the first sentence of a paragraph that somebody wrapped by\n"
        "hand, and it goes on over the line. The second one begins here and\n"
        "ends there.\n"
    )
    assert len(sentences(text)) == 2


def test_headings_verses_and_lists_keep_their_lines_apart() -> None:
    assert texts("My Holidays\nLast summer I went to the sea with my family.\n") == [
        "My Holidays",
        "Last summer I went to the sea with my family.",
    ]
    assert texts("milk\neggs\nbread") == ["milk", "eggs", "bread"]
    assert texts("- first thing to do\n- second thing to do\n  1. a deeper one") == [
        "first thing to do",
        "second thing to do",
        "a deeper one",
    ]


def test_a_byte_order_mark_is_not_part_of_a_sentence() -> None:
    assert texts("\ufeffHello there.") == ["Hello there."]


@pytest.mark.parametrize("text", ["", " ", "\n" * 10_000, "\t \r\n", "...", "1 2 3", "\ufeff"])
def test_a_text_without_words_has_nothing_to_correct(text: str) -> None:
    assert not any(has_words(t) for t in texts(text))


@pytest.mark.parametrize("text", ["a" * 200_000, "word " * 40_000, "A. " * 60_000, '"(' * 50_000])
def test_huge_lines_are_cut_quickly_and_completely(text: str) -> None:
    for start, end in sentences(text):
        pieces = split_to_budget(text, start, end, len, 1000)
        assert sum(b - a for a, b in pieces) >= len("".join(text[start:end].split())) - 1


def test_a_cut_prefers_the_end_of_a_clause() -> None:
    text = "we walked along the river, and then we came to the old stone bridge"
    (_, first_end), *_ = split_to_budget(text, 0, len(text), len, 40)
    assert text[:first_end] == "we walked along the river,"


def test_a_cut_never_parts_a_letter_from_its_accent() -> None:
    text = "e\u0301" * 50
    assert all((b - a) % 2 == 0 for a, b in split_to_budget(text, 0, len(text), len, 7))


def test_lines_are_stripped_and_empty_ones_left_out() -> None:
    text = "one \r\n\n  two\n"
    assert [text[a:b] for a, b in lines(text, 0, len(text))] == ["one", "two"]


def test_fenced_code_and_rows_of_tables_are_no_text() -> None:
    code, table = "```python\ndef go(): pass\n~~~\n```", "| a cell | of it |\n|---|"
    text = f"Do this:\n{code}\nIt works.\n{table}\nEnd.\n~~~~\ncode\n~~~~~"
    assert texts(text) == ["Do this:", "It works.", "End."]
    assert texts("|so| he said") == ["|so| he said"]


def test_code_that_is_set_off_by_its_indentation_is_no_text() -> None:
    code = "    from core import Engine\n    engine = Engine(exact=True)\n    engine.run(text)   # a list"
    text = f"Do this:\n\n{code}\n\n    A quotation, though.\n\n- An item\n    name -> value\n\n\tx -> y"
    found = [text[slice(*span)] for span in sentences(text)]
    assert found == ["Do this:", "A quotation, though.", "An item", "name -> value"]


def test_fences_of_items_and_quotations_fence_and_code_within_a_line_does_not() -> None:
    assert texts("- ```\n  a = b\n  ```\nOne.\n```\nc = d\n```\nTwo.") == ["One.", "Two."]
    assert texts("> ```\n> a = b\n> ```\nOne.") == ["One."]
    assert texts("```x``` is code.\nOne.\n```\nc = d\n```") == ["```x``` is code.", "One."]


def test_a_fence_that_is_never_closed_fences_nothing() -> None:
    assert texts("One.\n```\nTwo.\n``` three\nFour.") == ["One.", "```", "Two.", "``` three", "Four."]


def test_a_name_below_a_letter_wants_no_full_stop() -> None:
    text = "I thank you.\nBest regards,\nAnna B. Miller\nhead of sales"
    titles = [text[a:b] for a, b in sentences(text) if is_title(text, (a, b))]
    assert titles == ["Anna B. Miller"]
    assert not is_title("Anna", (0, 4))


def test_headings_and_items_of_a_list_want_no_full_stop() -> None:
    text = "My Holidays\r\n\r\nI went to the sea\nand it rained.\n\n - a towel\n - a hat.\n\nThe End"
    titles = [text[a:b] for a, b in sentences(text) if is_title(text, (a, b))]
    assert titles == ["My Holidays", "The End"]
    assert [text[a:b] for a, b in sentences(text) if is_item(text, (a, b))] == ["a towel"]
    assert not is_title("She go to school", (0, 16))
