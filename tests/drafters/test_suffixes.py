"""Suffix statistics, the suffix automaton and the drafters on them, against counting by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Seq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.drafters.sam import Sam
from core.drafters.suffix_automaton import SEPARATOR, SuffixAutomaton
from core.drafters.suffix_decoding import SuffixDecoding
from core.drafters.suffix_statistics import Place, SuffixStatistics, Text
from tests.drafters.writing import EOS, UNHURRIED, VOCAB, cycle, passes, row_of

TOKENS = st.integers(3, 5)
TEXTS = st.lists(st.lists(TOKENS, max_size=14), min_size=1, max_size=4)


def following(texts: Seq[Seq[int]], stretch: Seq[int]) -> Counter[int]:
    """What followed a stretch in the texts, and how often."""
    size = len(stretch)
    return Counter(
        text[i + size]
        for text in texts
        for i in range(len(text) - size)
        if list(text[i : i + size]) == list(stretch)
    )


def counted(statistics: SuffixStatistics, stretch: Seq[int]) -> dict[int, int]:
    place: Place | None = statistics.start()
    for token in stretch:
        place = None if place is None else statistics.advance(place, token)
    return {} if place is None else {token: count for token, count, _, _ in statistics.continuations(place)}


def stretches(texts: Seq[Seq[int]], length: int) -> set[tuple[int, ...]]:
    return {
        tuple(text[i : i + n]) for text in texts for n in range(length + 1) for i in range(len(text) - n + 1)
    }


@given(texts=TEXTS, forgotten=st.integers(0, 3))
@UNHURRIED
def test_the_statistics_count_what_followed_every_stretch(texts: list[list[int]], forgotten: int) -> None:
    statistics = SuffixStatistics(max_length=5)
    for text in texts:
        statistics.read(text)
    for _ in range(min(forgotten, len(texts))):
        statistics.forget_oldest()
    kept = texts[min(forgotten, len(texts)) :]
    assert statistics.num_tokens == sum(len(text) for text in kept)
    for stretch in stretches(texts, 4):
        assert counted(statistics, stretch) == following(kept, stretch)


@given(texts=TEXTS, growing=st.lists(TOKENS, max_size=20))
@UNHURRIED
def test_a_growing_text_knows_its_suffixes_that_occurred_before(
    texts: list[list[int]], growing: list[int]
) -> None:
    statistics = SuffixStatistics(max_length=6)
    for text in texts:
        statistics.read(text)
    own = Text()
    for i, token in enumerate(growing, 1):
        statistics.extend(own, [token])
        for node, length in own.suffixes:
            suffix = growing[i - length : i]
            got = {t: n for t, n, _, _ in statistics.continuations(Place(node, 0, length))}
            assert got == following([*texts, growing[:i]], suffix)
        known = [s for s in stretches([*texts, growing[: i - 1]], 5) if s]
        found = {length for _, length in own.suffixes}
        assert found == {len(s) for s in known if list(s) == growing[max(0, i - len(s)) : i]}


@given(prefix=st.lists(TOKENS, max_size=12), text=st.lists(TOKENS, max_size=30))
@UNHURRIED
def test_the_automaton_finds_the_longest_earlier_match(prefix: list[int], text: list[int]) -> None:
    automaton = SuffixAutomaton()
    automaton.extend([*prefix, SEPARATOR])
    state, length = 0, 0
    for i, token in enumerate(text):
        state, length = automaton.advance(state, length, token)
        automaton.append(token)
        whole = [*prefix, SEPARATOR, *text[: i + 1]]
        best, end = 0, 0
        for size in range(1, i + 2):
            suffix = text[i + 1 - size : i + 1]
            starts = [s for s in range(len(whole) - size) if whole[s : s + size] == suffix]
            if starts:
                best, end = size, starts[0] + size
        assert length == best
        if length:
            first = automaton.first_end(state)
            assert whole[first - length : first] == text[i + 1 - length : i + 1]
            assert first <= len(whole) - 1
            assert end <= first


def suffix_decoding() -> SuffixDecoding:
    return SuffixDecoding(eos_token_ids=frozenset({EOS}), max_shared_tokens=100)


def test_both_copy_from_the_prompt_of_a_rewriter_and_from_the_output() -> None:
    for drafter in (suffix_decoding(), Sam(VOCAB)):
        plain = 40
        prompted = passes(drafter, row_of(list(range(10, 50))), 40, cycle(40))
        assert prompted < plain / 2
        repeated = passes(drafter, row_of([3], id=1), 40, cycle(8))
        assert repeated < 8 + 12


def test_suffix_decoding_recalls_earlier_outputs_within_its_bound() -> None:
    drafter = suffix_decoding()
    first = passes(drafter, row_of([3]), 40, cycle(40))
    again = passes(drafter, row_of([3], id=1), 40, cycle(40))
    assert again < first / 2
    for i in range(10):
        passes(drafter, row_of([3], id=2 + i), 40, cycle(40))
        assert drafter.shared.num_tokens <= 100
    assert not drafter._rows


def test_a_corpus_serves_sam_where_the_row_itself_has_no_match() -> None:
    without = passes(Sam(VOCAB), row_of([3]), 40, cycle(40))
    drafter = Sam(VOCAB, corpus=list(range(10, 50)))
    assert passes(drafter, row_of([3]), 40, cycle(40)) < without / 2
    assert not drafter._rows


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="min_length"):
        Sam(VOCAB, min_length=0)
    with pytest.raises(ValueError, match="alpha"):
        SuffixDecoding(alpha=-1)
