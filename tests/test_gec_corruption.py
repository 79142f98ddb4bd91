"""Errors put into clean sentences: repeatable, never empty, names and numbers left alone."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.gec.corruption import (
    ERRORS,
    CorruptionConfig,
    Corruptor,
    Sentence,
    builtin_lexicon,
    curly,
    literal,
    load_lexicon,
    treebank,
    with_literal,
)
from apps.gec.corruption.misspellings import finger_slip, misspell, sound_slip
from apps.places import SHARED_DATA

LEXICON = builtin_lexicon()
TEXTS = [
    "The students want to take their books because they think that the problem is different.",
    "I don't know which house she lives in, but he says it's the one at the end of the street.",
    "What do you think about the new law? Many people believe that it makes life better.",
    "He always goes to school by bus, and he usually gives the driver money. The bus is old.",
    "Use the `max_items()` option (see https://example.com/a?b=1) for 3,500 items in data_set.csv and load(), too.",
]
EVERY = CorruptionConfig(clean_share=0.0)


@given(st.text(max_size=120))
def test_a_sentence_gives_its_text_back(text: str) -> None:
    """Nothing is lost when a text is cut up and put together, unless it is nothing but white space."""
    assert Sentence(text).text() == text


def test_same_seed_same_errors() -> None:
    """The errors depend on the seed alone."""
    corruptor = Corruptor(LEXICON, EVERY)
    first = [corruptor(text, Random(7)) for text in TEXTS]
    assert first == [corruptor(text, Random(7)) for text in TEXTS]
    assert first != [corruptor(text, Random(8)) for text in TEXTS]


def test_share_of_clean_sentences() -> None:
    """The share asked for comes back unchanged, the rest nearly always changed."""
    corruptor = Corruptor(LEXICON, CorruptionConfig(clean_share=0.4))
    rng = Random(1)
    same = sum(corruptor(text, rng) == text for _ in range(300) for text in TEXTS) / (300 * len(TEXTS))
    assert 0.36 < same < 0.46


def test_a_poor_speller_misspells_several_words_of_a_sentence() -> None:
    """Far more of them than a learner does."""

    def unknown(profile: int) -> float:
        learner, typist, native, speller = (float(k == profile) for k in range(4))
        config = CorruptionConfig(clean_share=0.0, profiles=(learner, typist, native, speller))
        corruptor = Corruptor(LEXICON, config)
        rng, right = Random(3), {word for text in TEXTS[:4] for word in text.lower().split()}
        made = [word for _ in range(60) for text in TEXTS[:4] for word in corruptor(text, rng).split()]
        return sum(word.lower() not in right for word in made) / len(made)

    assert unknown(3) > 0.15
    assert unknown(3) > 1.25 * unknown(0)


def test_number_of_errors_varies() -> None:
    """Longer sentences get several errors, now and then many."""
    corruptor = Corruptor(LEXICON, EVERY)
    rng = Random(3)
    text = " ".join(TEXTS[:4])
    distances = [
        sum(a != b for a, b in zip(text.split(), corruptor(text, rng).split(), strict=False))
        for _ in range(80)
    ]
    assert len(set(distances)) > 5


@pytest.mark.parametrize(
    "piece", ["`max_items()`", "load()", "https://example.com/a?b=1", "3,500", "data_set.csv"]
)
def test_literals_survive(piece: str) -> None:
    """Numbers, links, code and file names are never touched."""
    corruptor = Corruptor(LEXICON, EVERY)
    rng = Random(5)
    assert all(piece in corruptor(TEXTS[-1], rng) for _ in range(200))


def test_made_up_literals_survive() -> None:
    """Whatever `literal` makes is protected, wherever it stands."""
    corruptor = Corruptor(LEXICON, EVERY)
    rng = Random(6)
    for _ in range(300):
        piece = literal(rng)
        if piece.startswith("-") or " " in piece:
            continue
        assert piece in corruptor(f"They want to see {piece} in the house because it is different.", rng)


def test_names_keep_their_letters() -> None:
    """A capitalised word in the middle of a sentence is not misspelt."""
    corruptor = Corruptor(LEXICON, EVERY)
    rng = Random(2)
    assert all("Zbigniew" in corruptor("They want to see Zbigniew in the house.", rng) for _ in range(300))


@settings(max_examples=150)
@given(st.text(min_size=1, max_size=80), st.integers(0, 10_000))
def test_never_empty(text: str, seed: int) -> None:
    """Whatever comes in, something comes out."""
    result = Corruptor(LEXICON, EVERY)(text, Random(seed))
    assert result.strip() or not text.strip()


@pytest.mark.parametrize("maker", list(ERRORS), ids=lambda maker: maker.__name__)
def test_each_error_maker(maker) -> None:
    """Every kind reports truly whether it changed the sentence, and keeps to words that are free."""
    rng = Random(4)
    changed = 0
    for _ in range(150):
        for text in TEXTS[:4]:
            sentence = Sentence(text)
            if maker(sentence, rng, LEXICON):
                changed += sentence.text() != text
                assert sentence.edits >= 1
            assert sentence.text().strip()
    if maker.__name__ not in {"comparative", "related_word", "hyphen"}:
        assert changed > 0


@given(st.sampled_from(["because", "environment", "student", "apple", "running", "it"]), st.integers(0, 5000))
def test_slips_change_the_word(word: str, seed: int) -> None:
    """Slips stay near the word and are never empty."""
    rng = Random(seed)
    for slip in (finger_slip, sound_slip):
        new = slip(word, rng)
        assert new
        assert abs(len(new) - len(word)) <= 3
    assert misspell(word, rng, LEXICON, typist=False)


def test_treebank_style() -> None:
    """Marks set apart, contractions cut, quotes as asked for."""
    assert treebank("I don't know, but it's 3,000.") == "I do n't know , but it 's 3,000 ."
    assert treebank('He said, "Go."') == "He said , `` Go . ''"
    assert treebank('He said, "Go."', '"') == 'He said , " Go . "'


def test_curly_style() -> None:
    """Quotes open at the start of a word and close elsewhere."""
    assert curly('"It\'s" he said.') == "“It’s” he said."


def test_literal_is_set_into_the_text() -> None:
    """The words around a literal stay."""
    text = "Go to the house with a friend."
    longer = with_literal(text, Random(1))
    assert longer != text
    assert len(longer) > len(text)


def test_full_lexicon() -> None:
    """The shared lists load and name what they know."""
    data = SHARED_DATA
    if not (data / "noise").is_dir():
        pytest.skip(f"no shared data at {data}")
    lexicon = load_lexicon(data)
    assert lexicon.verbs["went"][0][0][0] == "go"
    assert lexicon.plural["child"] == "children"
    assert "environment" in lexicon.misspellings


def test_missing_data_is_named(tmp_path) -> None:
    """An absent folder is an error that says which and what to do."""
    with pytest.raises(FileNotFoundError, match="--data"):
        load_lexicon(tmp_path)
