"""The list of words, and the changes that it does not believe."""

from __future__ import annotations

import pytest

from apps.gec.edits import apply_edits, extract_edits
from apps.gec.projection import project
from apps.gec.vocabulary import english


@pytest.mark.parametrize(
    "word",
    ["colour", "color", "organise", "organize", "website", "timestamp", "i'd", "john's", "don't", "naïve"],
)
def test_words_of_either_english_and_of_technical_texts_exist(word: str) -> None:
    assert word in english()


@pytest.mark.parametrize("word", ["recieve", "definately", "enviroment", "neccessary", "colororing", "alot"])
def test_misspellings_do_not_exist(word: str) -> None:
    assert word not in english()


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("Pick some coloring sheets.", "Pick some colororing sheets."),
        ("He was briliant.", "He was brilient."),
        ("He has several stents in his heart.", "He has several students in his heart."),
        ("This thesis is short.", "This this is short."),
        ("A wrap-able grid.", "A wrapping-ablee grid."),
        ("Human adipocytes are small.", "Human advocates are small."),
        ("His perseverence is known.", "His presence is known."),
        ("He eats fysh daily.", "He eats fuss daily."),
        ("It is a very qualitive good book.", "It is a very good book."),
        ("She slept on the campground.", "She slept on the campaign."),
        ("Parental controls exist.", "Parent controls exist."),
        ("With all due respect to them, no.", "With all due to them, no."),
        ("Fields above it exist.", "Fields above databases it exist."),
    ],
)
def test_invented_words_and_mended_right_ones_are_refused(source: str, output: str) -> None:
    done = project(source, source, output)
    assert done is not None
    assert (done.text, done.dropped) == (source, 1)
    foreign = project(source, source, output, is_english=False)
    assert foreign is not None
    assert foreign.text == output


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("I recieve alot of letters.", "I receive a lot of letters."),
        ("The behavoir of childs changed.", "The behaviour of children changed."),
        ("We had desert after dinner.", "We had dessert after dinner."),
        ("Three students goes home.", "Three students go home."),
        ("He want to be a engineers.", "He wants to be an engineer."),
        ("I dont know .", "I do n't know ."),
        ("Zorbl like the pony.", "The pony likes Zorbl."),
        ("He wanted going to goverment.", "He wanted to go to government."),
        ("A conection of many thirdworld problems.", "A connection of many third world problems."),
        ("She teached us.", "She taught us."),
        ("Their are many people here.", "There are many people here."),
        ("I think your right.", "I think you're right."),
        ("He past the exam and was exited.", "He passed the exam and was excited."),
        ("She dont know.", "She doesn't know."),
        ("They wasnt here.", "They weren't here."),
        (
            "It has a big big effect and less price then yours.",
            "It has a big effect and less price than yours.",
        ),
        ("It will effect the goverments plan.", "It will affect the government's plan."),
        ("We went to beach with splendit signs.", "We went to the beach with splendid signs."),
    ],
)
def test_mended_misspellings_other_forms_and_confused_words_are_believed(source: str, output: str) -> None:
    assert not [
        edit for edit in extract_edits(source, output) if not english().believes(edit, source, output)
    ]
    done = project(source, source, output)
    assert done is not None
    assert done.text == output


def test_of_several_edits_only_the_doubtful_ones_are_refused() -> None:
    source = "She go to the clinic for stents every yaer."
    done = project(source, source, "She goes to the clinic for students every year.")
    assert done is not None
    assert done.text == "She goes to the clinic for stents every year."


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("They live in caves of gnarlings.", "They live in caves of the gnarlings."),
        ("The mehro was here.", "The mehro system was here."),
    ],
)
def test_nothing_is_put_beside_a_word_that_the_model_does_not_know(source: str, output: str) -> None:
    done = project(source, source, output)
    assert done is not None
    assert (done.text, done.dropped) == (source, 1)


def test_a_word_may_move_beside_a_strange_one() -> None:
    source, output = "It gnarlig is.", "It is gnarlig."
    done = project(source, source, output)
    assert done is not None
    assert done.text == output


@pytest.mark.parametrize("word", ["brainstem", "upregulated", "platformer", "subsecond", "tasteless"])
def test_words_made_of_known_ones_are_not_strange(word: str) -> None:
    assert not english().strange(f"The {word} is here.")


def test_strange_are_words_in_lower_case_that_are_no_names_and_no_code() -> None:
    text = (
        "Teh peple say Kyocera's `enviroment`, kube-prox, foo/barr, nodraw(), a.bcde and cafés: definately."
    )
    assert [text[slice(*span)] for span in english().strange(text)] == ["peple", "definately"]


@pytest.mark.parametrize("output", ["I go too.", "I gobble two.", "We go to thesis two.", ""])
def test_where_nothing_is_doubted_every_edit_is_believed(output: str) -> None:
    source = "I go to."
    edits = extract_edits(source, output)
    assert apply_edits(source, edits) == output
    if not english().doubts(source, output):
        assert all(english().believes(edit, source, output) for edit in edits)


@pytest.mark.parametrize(
    "text",
    [
        "Er geht nach Hause.",
        "Das ist ein deutscher Satz.",
        "Ich habe keine Zeit für solche Dinge.",
        "El perro está durmiendo en la casa de mi hermano.",
        "Questa sera andiamo al cinema con gli amici.",
    ],
)
def test_another_language_is_told_by_its_words(text: str) -> None:
    assert not english().knows(text)


@pytest.mark.parametrize(
    "text",
    [
        "therefore I brougth a car imidiatly .",
        "First effection is grobal warming .",
        "Kyocera introduced the FS-C2126MFP in 2010.",
        "She recieve emial.",
        "Hi!",
        "",
    ],
)
def test_misspelt_english_and_english_with_names_is_english(text: str) -> None:
    assert english().knows(text)
