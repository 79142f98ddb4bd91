"""Corrections pass the guard; lost, invented and looping text does not."""

import pytest

from apps.gec.guard import longest_repeat, problem
from apps.gec.prompts import check_template, fill, template_for

LONG = "We was walking along the river when it start to rain and so we goed back to the house of my uncle."


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("She go to school.", "She went to school."),
        ("u r", "You are right."),
        (LONG, LONG.replace("was", "were").replace("goed", "went")),
        ("very very very good", "very very very good!"),
        ("the the the cat", "the cat"),
        ("I am agree with you about it, isn't it?", "I agree with you about it."),
    ],
)
def test_a_correction_passes(source: str, output: str) -> None:
    assert problem(source, output) is None


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("", "empty"),
        (LONG[:50], "lost text"),
        (" ".join(LONG.split()[:-3]), "lost text"),
        (LONG + " And then we had a very long dinner.", "added text"),
        (LONG.replace("the river", "the river the river the river"), "repetition"),
        (" ".join(["xyzq", "qjvx"] + [f"zzkq{i}vxj" for i in range(20)]), "rewritten"),
    ],
)
def test_a_degenerate_output_is_named(output: str, reason: str) -> None:
    assert problem(LONG, output) == reason


def test_an_output_that_hit_the_limit_is_refused_even_if_it_looks_well() -> None:
    assert problem("Good.", "Good.", "length") == "length"


def test_a_repeat_is_counted_in_phrases() -> None:
    assert longest_repeat(["a", "b", "a", "b", "a", "b", "c"]) == 3
    assert longest_repeat(["a", "b", "c"]) == 1
    assert longest_repeat([]) == 1


def test_known_models_bring_their_prefix() -> None:
    assert (
        fill(template_for("grammarly/coedit-large") or "", "X {y}")
        == "Fix grammatical errors in this sentence: X {y}"
    )
    assert template_for("vennify/t5-base-grammar-correction") == "grammar: {text}"
    assert template_for("data/models/gec-small") is None


@pytest.mark.parametrize("template", ["grammar:", "{text} {text}"])
def test_a_prompt_needs_the_sentence_exactly_once(template: str) -> None:
    with pytest.raises(ValueError, match="times"):
        check_template(template)


def test_a_line_end_in_a_prompt_may_be_written_as_the_shell_gives_it() -> None:
    assert fill(r"Wrong: {text}\nRight:", "I go") == "Wrong: I go\nRight:"
