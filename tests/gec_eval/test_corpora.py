"""Evaluation sets resolve by name, read M2, and say where they are missed."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.gec.metrics.corpora import EvalSet, MissingSet, load_set, set_names, tokenize_text
from apps.gec.metrics.m2 import read_m2
from apps.gec.metrics.quality import assess

words = str.split
M2 = """S He go home .
A 1 2|||R:VERB|||goes|||REQUIRED|||-NONE-|||0
A 3 3|||M:PUNCT|||, now|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

S All good .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1
"""


def test_m2_annotators_become_corrected_sentences(tmp_path: Path) -> None:
    path = tmp_path / "dev.m2"
    path.write_text(M2)
    first, second = read_m2(path)
    assert first.references == [words("He goes home , now ."), words("He go home .")]
    assert second.references == [words("All good .")] * 2


def test_a_malformed_m2_edit_is_quoted_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "dev.m2"
    path.write_text("S a b\nA 0 1|||R|||x\n")
    with pytest.raises(ValueError, match="this one 3: 'A 0 1"):
        list(read_m2(path))


def test_groups_and_sets_resolve_without_repeats() -> None:
    assert set_names("jfleg, cweb,cweb_g") == ["jfleg", "cweb_g", "cweb_s"]
    with pytest.raises(ValueError, match="no evaluation set 'jfelg'"):
        set_names("jfelg")


def test_a_missing_set_names_its_path(tmp_path: Path) -> None:
    with pytest.raises(MissingSet, match=r"dev\.ref0 is not here"):
        load_set("jfleg", tmp_path)


def test_ordinary_text_is_cut_into_words_and_signs() -> None:
    text = 'He said: "don\'t use `a b`, it cost 3.5."'
    assert tokenize_text(text) == [
        "He",
        "said",
        ":",
        '"',
        "don't",
        "use",
        "`a b`",
        ",",
        "it",
        "cost",
        "3.5",
        ".",
        '"',
    ]


def test_clean_sentences_are_those_that_no_annotator_changed() -> None:
    sentences = ["He go .", "All good .", "Fine ."]
    references = [[["He", "goes", "."]], [["All", "good", "."]], [["Fine", "."]]]
    corpus = EvalSet("toy", sentences, references, str.split)
    quality = assess(corpus, ["He goes .", "All well .", "Fine ."])
    assert (quality.clean_sentences, quality.clean_changed) == (2, 50.0)
    assert (quality.precision, quality.recall) == (50.0, 100.0)


def test_a_set_of_clean_sentences_has_no_gleu_but_a_false_alarm_rate() -> None:
    corpus = EvalSet("clean", ["All good."], [[]], tokenize_text)
    quality = assess(corpus, ["All well."])
    assert (quality.gleu, quality.f05) == (None, None)
    assert quality.clean_changed == 100.0
