"""Nothing is lost on the way from a text to its correction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gec_fakes import RuleEngine, plain_errors
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.gec import Corrector
from apps.gec.edits import apply_edits

MODEL = "org/fake"
TEXTS = st.lists(
    st.sampled_from(
        ["She go to school.", " alot of the the words ", "\n", "\r\n", "\n\n", "  ", "\t", "“Hi”, he said.", "😀", "A",
         "\u2028", "- item one\n", "No. 5 is", "\ufeff", "and a line that is long enough to be wrapped by its writer\n"]
    ),
    max_size=12,
).map("".join)  # fmt: skip


def corrector(engine: RuleEngine | None = None, **options: Any) -> Corrector:
    return Corrector(MODEL, engine=engine or RuleEngine(plain_errors), **options)  # type: ignore[arg-type]


@given(text=st.one_of(TEXTS, st.text(max_size=60)), budget=st.sampled_from([8, 20, 128]))
@settings(max_examples=200, deadline=None)
def test_a_model_that_copies_changes_no_text(text: str, budget: int) -> None:
    assert corrector(RuleEngine(), max_source_tokens=budget).correct(text).text == text


@given(text=TEXTS)
@settings(max_examples=200, deadline=None)
def test_edits_rebuild_the_correction_and_streaming_gives_the_same(text: str) -> None:
    subject = corrector()
    correction = subject.correct(text)
    assert apply_edits(text, correction.edits) == correction.text
    assert tuple(subject.correct_stream(text)) == correction.sentences
    assert [c for c in correction.text if c in "\r\n"] == [c for c in text if c in "\r\n"]


@given(text=TEXTS, wild=st.text(alphabet="ab .\n", max_size=40))
@settings(max_examples=100, deadline=None)
def test_whatever_the_model_says_the_line_structure_stays(text: str, wild: str) -> None:
    correction = corrector(RuleEngine(lambda _: wild)).correct(text)
    assert [c for c in correction.text if c in "\r\n"] == [c for c in text if c in "\r\n"]


def test_a_batch_gives_each_text_its_own_correction() -> None:
    texts = ["She go to school. He go to work.", "", "Fine.", "\n\n", "It is alot of work."]
    corrections = corrector().correct_batch(texts)
    assert [c.text for c in corrections] == [
        "She went to school. He went to work.", "", "Fine.", "\n\n", "It is a lot of work.",
    ]  # fmt: skip
    assert [c.source for c in corrections] == texts


def test_sentences_are_corrected_as_they_are_given() -> None:
    engine = RuleEngine(plain_errors)
    done = corrector(engine).correct_sentences(["I go home. You go home.", "Fine."])
    assert [s.corrected for s in done] == ["I went home. You went home.", "Fine."]
    assert len(engine.read) == 2


def test_what_has_no_words_never_meets_the_model() -> None:
    engine = RuleEngine(plain_errors)
    subject = corrector(engine)
    assert subject.correct("\n\n 1.\n * * *\n…\n").text == "\n\n 1.\n * * *\n…\n"
    assert engine.read == []


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (lambda text: text + " and so on" * 60, "length"),
        (lambda text: text[:12], "lost text"),
        (lambda text: "", "empty"),
        (lambda text: text.replace("school", "school school school school"), "repetition"),
    ],
)
def test_an_output_that_is_not_trusted_leaves_the_source_and_is_counted(rule: Any, reason: str) -> None:
    source = "She go to school by bus every single morning of the week."
    subject = corrector(RuleEngine(rule))
    correction = subject.correct(source)
    assert correction.text == source
    assert dict(subject.stats.kept) == {reason: 1}
    assert correction.sentences[0].warning == reason


def test_characters_outside_the_vocabulary_survive() -> None:
    subject = corrector(RuleEngine(plain_errors, unknown="😀é"))
    assert subject.correct("She go to the café 😀 with alot of bags.").text == (
        "She went to the café 😀 with a lot of bags."
    )


def test_the_model_never_sees_emoji_and_control_characters() -> None:
    engine = RuleEngine(plain_errors)
    text = "We go home 👩‍👩‍👧 and\x00 it is\xad alot, at 20 °C."
    assert corrector(engine).correct(text).text == text.replace(" go ", " went ").replace("alot", "a lot")
    assert engine.read == ["We go home and it is alot, at 20 °C."]


def test_a_sentence_over_the_budget_is_corrected_in_pieces_without_new_ends() -> None:
    engine = RuleEngine(lambda text: plain_errors(text[0].upper() + text[1:].rstrip(".") + "."))
    source = "we go out, " * 100 + "and we go home."
    text = corrector(engine, max_source_tokens=60).correct(source).text
    assert text == "We went out, " + "we went out, " * 99 + "and we went home."
    assert max(len(read) for read in engine.read) <= 61


def test_a_sentence_whose_line_break_has_no_place_is_corrected_line_by_line() -> None:
    engine = RuleEngine(lambda text: plain_errors(text).replace("every day", "everyday"))
    source = (
        "The children of the village where I was born go to school every\n"
        "day, and they go there on foot in summer and in winter as well.\n"
    )
    assert corrector(engine).correct(source).text == source.replace(" go ", " went ")
    assert len(engine.read) == 3


@pytest.mark.parametrize("caution", [float("-inf"), float("inf"), float("nan")])
def test_an_impossible_caution_is_refused(caution: float) -> None:
    with pytest.raises(ValueError, match="caution"):
        corrector(caution=caution)


def test_a_model_path_that_leads_nowhere_is_told_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no model at .* give --model"):
        Corrector(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"without config\.json"):
        Corrector(tmp_path)


def test_a_heading_gets_no_full_stop() -> None:
    engine = RuleEngine(lambda text: plain_errors(text.rstrip(".") + "."))
    assert corrector(engine).correct("When I go out\n\nI go out").text == "When I went out\n\nI went out"
    assert corrector(engine).correct("I go out").text == "I went out."


def test_an_item_of_a_list_gets_neither_a_capital_nor_a_full_stop() -> None:
    def rule(text: str) -> str:
        return plain_errors(text[0].upper() + text[1:].removesuffix(".") + ".")

    text = "My plan:\n- when I go out\n- i go too\n2) why I go out.\n"
    wanted = "My plan:\n- when I went out\n- I went too\n2) Why I went out.\n"
    assert corrector(RuleEngine(rule)).correct(text).text == wanted


@pytest.mark.parametrize("mark", ",:;")
def test_a_line_that_leads_to_others_keeps_its_mark(mark: str) -> None:
    engine = RuleEngine(lambda text: plain_errors(text.rstrip(mark).removesuffix(".") + "."))
    assert (
        corrector(engine).correct(f"I go out{mark}\n\nI go out.").text == f"I went out{mark}\n\nI went out."
    )


def test_sentences_in_another_language_are_left_alone_unless_it_is_named() -> None:
    engine = RuleEngine(lambda text: text.replace("ein ", "eine "))
    german = "Das ist ein deutscher Satz."
    subject = corrector(engine)
    assert subject.correct(german).text == german
    assert subject.stats.skipped == 1
    assert corrector(engine, language="de").correct(german).text == "Das ist eine deutscher Satz."


def test_what_ends_in_a_colon_goes_on_and_what_ends_in_a_comma_need_not() -> None:
    engine = RuleEngine(lambda text: plain_errors(text.rstrip(",:") + "."))
    ended = corrector(engine).correct_sentences(["I go out: ", "I go out,", ""])
    assert [sentence.corrected for sentence in ended] == ["I went out: ", "I went out.", ""]


def test_stats_count_sentences_changes_and_passes() -> None:
    subject = corrector()
    subject.correct("She go to school. Fine. 12.")
    stats = subject.stats
    assert (stats.sentences, stats.changed, stats.forwards) == (3, 1, 2)
    assert stats.sentences_per_second > 0
