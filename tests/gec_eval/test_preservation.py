"""The checks for touched spans, lost tails and loops find what they are for and spare what is right."""

from __future__ import annotations

import pytest

from apps.gec.metrics.passes import PassCounts, novel_tokens
from apps.gec.metrics.preservation import has_loop, kept, lost_tail, protected_spans

LONG = "We walked along the river for a while and then we came back to the old house by the lake ."


@pytest.mark.parametrize(
    ("kind", "text", "spans"),
    [
        ("numbers", "It cost 3.50 on 12/11, not 1,000.", ["3.50", "12/11", "1,000"]),
        (
            "urls",
            "See https://example.org/a_b (or www.example.com).",
            ["https://example.org/a_b", "www.example.com"],
        ),
        ("emails", "Ask joe.x@mail.arc.org, or me@home.", ["joe.x@mail.arc.org"]),
        ("code", "Run `pip install x` or `make`.", ["`pip install x`", "`make`"]),
        ("names", "Then I met Anna Smith in Paris. She left.", ["Anna Smith", "Paris"]),
    ],
)
def test_spans_of_each_kind_are_found(kind: str, text: str, spans: list[str]) -> None:
    assert sorted(protected_spans(text, kind).elements()) == sorted(spans)


def test_a_changed_number_is_not_kept_and_a_sentence_without_numbers_does_not_count() -> None:
    assert kept("It have 12 rooms.", "It has 12 rooms.", "numbers") is True
    assert kept("It have 12 rooms.", "It has 2 rooms.", "numbers") is False
    assert kept("It have rooms.", "It has rooms.", "numbers") is None


def test_a_name_is_kept_though_the_words_around_it_change() -> None:
    assert kept("we goes to Paris", "We go to Paris", "names") is True
    assert kept("we goes to Paris", "We go to Pairs", "names") is False


def test_an_output_that_stops_early_has_lost_its_tail() -> None:
    assert lost_tail(LONG, "We walked along the river for a while and then we")
    assert not lost_tail(LONG, LONG)
    assert not lost_tail(LONG, LONG.replace("for a while and then we", "and"))


def test_a_phrase_said_three_times_is_a_loop_unless_the_source_says_it_too() -> None:
    assert has_loop("it is good", "it is it is it is good")
    assert not has_loop("it is it is it is good", "it is it is it is good")
    assert not has_loop("that that is", "that that is")
    assert not has_loop("wait ...", "wait . . .")


def test_novel_tokens_count_repeats() -> None:
    assert novel_tokens([1, 2, 3], [1, 2, 2, 4]) == 2


def test_perfect_copying_takes_one_pass_and_one_per_novel_token() -> None:
    counts = PassCounts()
    counts.add(1, 4, 4, [5, 6, 7, 8], [5, 6, 7, 8])
    counts.add(3, 9, 4, [5, 6, 7, 8], [5, 9, 7, 8])
    assert (counts.per_sentence, counts.bound, counts.tokens_per_pass) == (2.0, 1.5, 2.5)
