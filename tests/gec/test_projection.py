"""What the model did not see, or must not change, survives; line breaks stay."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.gec.projection import one_line, project

WORDS = st.lists(
    st.sampled_from(["the", "cat", "sat", ",", ".", "on", "a", "mat", "12", "it's"]), max_size=10
)
GAPS = st.sampled_from([" ", "  ", "\n", "\r\n", "\t", " \n    "])


def carried(source: str, output: str) -> str | None:
    found = project(source, one_line(source), output)
    return None if found is None else found.text


@given(words=WORDS, gaps=st.lists(GAPS, min_size=10, max_size=10), output=WORDS)
@settings(max_examples=300, deadline=None)
def test_line_breaks_are_kept_or_the_answer_is_none(
    words: list[str], gaps: list[str], output: list[str]
) -> None:
    source = "".join(w + g for w, g in zip(words, gaps, strict=False)).strip()
    text = carried(source, " ".join(output))
    assert text is None or [c for c in text if c in "\r\n"] == [c for c in source if c in "\r\n"]


@given(source=st.text(max_size=40), output=st.text(max_size=40))
@settings(deadline=None)
def test_any_pair_of_strings_is_carried_without_an_error(source: str, output: str) -> None:
    project(source.strip(), one_line(source), output)


@given(source=st.text(max_size=40))
def test_an_unchanged_output_leaves_the_source_alone(source: str) -> None:
    assert carried(source.strip(), one_line(source)) == source.strip()


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("She go\nto school.", "She goes to school.", "She goes\nto school."),
        ("She go to\r\nthe the school.", "She goes to the school.", "She goes to\r\nthe school."),
        ("I like very\nthe sea.", "I like the sea very much.", "I like the\nsea very much."),
        ("He has  two   cat.", "He has two cats.", "He has  two   cats."),
        ("I saw alot\nof it.", "I saw a lot of it.", "I saw a lot\nof it."),
        ("the boy\nvery big runs", "the boy runs", None),
        ("every\nday", "everyday", None),
        ("where you\nare going", "where are you going", "where are\nyou going"),
    ],
)
def test_a_wrapped_line_keeps_its_break(source: str, output: str, expected: str | None) -> None:
    found = carried(source, output)
    if expected is None:
        assert found is None or "\n" in found
    else:
        assert found == expected


def test_characters_that_the_model_cannot_see_survive() -> None:
    found = project("He have a cat 😀.", "He have a cat .", "He has a cat.")
    assert found is not None
    assert (found.text, found.dropped) == ("He has a cat 😀.", 1)


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        (
            "The cacheAsBitmap flag are set.",
            "The cacheAs Bitmap flag is set.",
            "The cacheAsBitmap flag is set.",
        ),
        ("He set max_rows to ten.", "He sets max rows to ten.", "He sets max_rows to ten."),
        ("They uses fp32.", "They use for32.", "They use fp32."),
        (
            "Second thing are <b>bad</b>.",
            "The second thing is < b>bad<b>.",
            "The second thing is <b>bad</b>.",
        ),
        ("It are \\emph{so} \\cite{me}.", "It is {so} \\cite{my}.", "It is \\emph{so} \\cite{me}."),
        ("DEQ say no.", "TheDEQ says no.", "DEQ says no."),
        ("It are on github.", "It is on GitHub.", "It is on GitHub."),
        ("It are **whole**, x = [1].", "It is * whole**, x = 1.", "It is **whole**, x = [1]."),
        ("4. **pack** Rows becomes one.", "4. **** Rows become one.", "4. **pack** Rows become one."),
        ("It read src/main.rs and\nis webml/proof-api.", "It reads src/main and is web ml/proof-api.",
         "It reads src/main.rs and\nis webml/proof-api."),
    ],
)  # fmt: skip
def test_identifiers_and_the_marks_of_programs_stay(source: str, output: str, expected: str) -> None:
    assert carried(source, output) == expected


def test_figures_and_addresses_are_not_changed() -> None:
    found = project("In 2019 she go.", "In 2019 she go.", "In 2018 she went.")
    assert found is not None
    assert (found.text, found.dropped) == ("In 2019 she went.", 1)
    found = project("See www.exampel.org now", "See www.exampel.org now", "See www.example.org now.")
    assert found is not None
    assert found.text == "See www.exampel.org now."


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("To learn more, visit www.manor.com/. Its nice",
         "To learn more, visit www.manor.com/.com/. It's nice", "To learn more, visit www.manor.com/. It's nice"),
        ("Sign up at www.jimdo.com and start.", "Sign up at www.jimdo.com.com and start.", None),
        ("It go to http://a.org/b", "It goes to http://a.org/b.", "It goes to http://a.org/b"),
        ("See http://a.org , it work", "See http://a.org, it works", "See http://a.org , it works"),
        ("Mail joe@mail.arc.gov for it", "Mail joe@mail.arc.com for it.", "Mail joe@mail.arc.gov for it."),
        ("We uses jimdo.com for it", "We use jimbo.com for it", "We use jimdo.com for it"),
        ("You types `git comit -m` here", "You type `git commit -m` here", "You type `git comit -m` here"),
        ("It are (http://a.org/b)", "It is (.org/http://a.org/b)", "It is (http://a.org/b)"),
        ("I has ftp://ftp.a.org/b", "I have for ftp://ftp.a.com/b", "I have for ftp://ftp.a.org/b"),
        ("%s like it, %d time.", "% likes it, % times.", "%s likes it, %d times."),
        ("She is 5'2 tal", "She is 5\u20322 tall", "She is 5'2 tall"),
        ("It cost 1,200 in total", "It costs 1,300 in total", "It costs 1,200 in total"),
    ],
)  # fmt: skip
def test_addresses_code_and_figures_come_back_as_they_were(
    source: str, output: str, expected: str | None
) -> None:
    assert carried(source, output) == (source if expected is None else expected)


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("He like Burt Bacharach alot.", "He likes Burt Bachach a lot.", "He likes Burt Bacharach a lot."),
        ("As a native Californian, he go.", "As a native professional, he went.",
         "As a native Californian, he went."),
        ("I has been to the Wine club.", "I have been to the club.", "I have been to the Wine club."),
        ("I know Johns brother.", "I know John's brother.", "I know John's brother."),
        ("He study Materials Science there.", "He studies Material Science there.",
         "He studies Materials Science there."),
        ("In our StudentOrient we finds it.", "In our Student Orient we find it.", "In our StudentOrient we find it."),
        ("Some know that Ive gone.", "Some know that I've gone.", "Some know that I've gone."),
        ("We met, And we talk.", "We met, and we talked.", "We met, and we talked."),
        ("Helo to you all.", "Hello to you all.", "Hello to you all."),
        ("The dog and I goes.", "The dog and I go.", "The dog and I go."),
    ],
)  # fmt: skip
def test_names_keep_their_letters_and_their_grammar_is_mended(
    source: str, output: str, expected: str
) -> None:
    assert carried(source, output) == expected


def test_a_cut_end_gets_no_capital_and_no_full_stop() -> None:
    found = project("and then he go", "and then he go", "And then he went.", open_start=True, open_end=True)
    assert found is not None
    assert found.text == "and then he went"


def test_quotes_keep_the_style_of_the_source() -> None:
    source = "“I dont know”, he say. It’s late."
    found = project(
        source, source.translate({8220: '"', 8221: '"', 8217: "'"}), "\"I don't know\", he says. It's late."
    )
    assert found is not None
    assert found.text == "“I don’t know”, he says. It’s late."


def test_symbols_and_foreign_letters_are_neither_lost_nor_invented() -> None:
    source = "He live in Łódź 😀 now"
    found = project(source, source, "He lives in Łód 🟘 now")
    assert found is not None
    assert found.text == "He lives in Łódź 😀 now"
