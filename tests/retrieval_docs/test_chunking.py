"""Passages are the text at their offsets, within the limit, and nothing of the text is lost."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.chunking import ChunkConfig, Passage, passages
from retrieval.loaders import parse
from retrieval.loaders.document import LoadedDocument
from retrieval.token_counting import approximate_tokens

SENTENCES = " ".join(
    f"Sentence number {i} says a few plain words about the matter at hand." for i in range(60)
)


def cut(text: str, name: str = "note.md", **config: int) -> list[Passage]:
    return passages(parse(text.encode(), name), ChunkConfig(**config))


def by_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


texts = st.lists(
    st.sampled_from(
        ["word", "a", "Ünïcode", "漢字漢字。", "end. ", "! ", "\n", "\n\n", " ", "\t", "\n# Head\n", "x" * 40]
    )
    | st.text(max_size=12),
    max_size=80,
).map("".join)


@settings(deadline=None)
@given(texts, st.integers(8, 40), st.integers(0, 4), st.sampled_from(["n.txt", "n.md"]), st.booleans())
def test_every_passage_is_the_text_at_its_offsets_and_within_the_limit(
    text: str, max_tokens: int, overlap: int, name: str, bytewise: bool
) -> None:
    document = parse(text.replace("\0", "").encode("utf-8", "replace"), name)
    count = by_bytes if bytewise else approximate_tokens
    found = passages(document, ChunkConfig(max_tokens, overlap), count)
    covered: set[int] = set()
    for number, passage in enumerate(found):
        assert passage.text == document.text[passage.start : passage.end] == passage.text.strip() != ""
        assert count(passage.text) <= max_tokens
        assert passage.number == number
        covered.update(range(passage.start, passage.end))
    front = document.sections[0].start if document.sections else len(document.text)
    lost = [c for i, c in enumerate(document.text) if i >= front and i not in covered and not c.isspace()]
    assert not lost
    starts = [passage.start for passage in found]
    assert starts == sorted(set(starts))


def test_passages_overlap_by_whole_sentences_within_the_limit() -> None:
    found = cut(SENTENCES, "n.txt", max_tokens=60, overlap=25)
    assert len(found) > 5
    for before, after in pairwise(found):
        repeated = SENTENCES[after.start : before.end]
        assert repeated.startswith("Sentence number")
        assert approximate_tokens(repeated) <= 25


def test_without_overlap_no_letter_is_in_two_passages() -> None:
    found = cut(SENTENCES, "n.txt", max_tokens=60, overlap=0)
    assert all(before.end <= after.start for before, after in pairwise(found))
    assert all(re.fullmatch(r"Sentence.*hand\.", passage.text) for passage in found)


def test_repeated_text_keeps_its_own_offsets() -> None:
    text = "The same line again.\n" * 200
    found = cut(text, "n.txt", max_tokens=20, overlap=0)
    assert all(text[passage.start : passage.end] == passage.text for passage in found)
    assert len({passage.start for passage in found}) == len(found) > 40


def test_passages_stop_at_headings_and_know_the_way_to_them() -> None:
    text = "intro\n\n# Setup\n\nFirst.\n\n## Linux\n\nUse apt.\n\n## Mac\n\nUse brew.\n\n# Use\n\nRun it.\n"
    found = [(passage.headings, passage.text) for passage in cut(text)]
    assert found == [
        ((), "intro"),
        (("Setup",), "# Setup\n\nFirst."),
        (("Setup", "Linux"), "## Linux\n\nUse apt."),
        (("Setup", "Mac"), "## Mac\n\nUse brew."),
        (("Use",), "# Use\n\nRun it."),
    ]


def test_a_heading_with_nothing_under_it_goes_with_what_follows() -> None:
    found = cut("# Guide\n\n## Install\n\n### Linux\n\napt\n\n# Last\n")
    assert [(passage.headings, passage.text) for passage in found] == [
        (("Guide", "Install", "Linux"), "# Guide\n\n## Install\n\n### Linux\n\napt"),
        (("Last",), "# Last"),
    ]


def test_pages_are_those_of_the_first_and_the_last_letter() -> None:
    pages = ["one one", "two two two", "", "four"]
    text = "\n\n".join(pages)
    document = LoadedDocument(text, "t", LoadedDocument.plain(text, "t").sections, (0, 9, 22, 24))
    (whole,) = passages(document, ChunkConfig(50, 0))
    assert (whole.page, whole.last_page) == (1, 4)
    parts = passages(document, ChunkConfig(8, 0), lambda piece: 2 * len(piece.split()) + len(piece) // 8)
    assert [(passage.text, passage.page) for passage in parts][-1] == ("four", 4)
    assert document.page_at(8) == 1
    assert document.page_at(9) == 2


def test_text_without_blanks_is_cut_too() -> None:
    found = cut("QUJD" * 5000, "n.txt", max_tokens=50, overlap=0)
    assert "".join(passage.text for passage in found) == "QUJD" * 5000
    assert max(len(passage.text) for passage in found) <= 400


def test_a_token_counter_that_sees_one_token_does_not_make_endless_passages() -> None:
    found = passages(LoadedDocument.plain("z" * 10_000, "t"), ChunkConfig(50, 0), lambda text: 1)
    assert max(len(passage.text) for passage in found) <= 400


@pytest.mark.parametrize("text", ["", " \n\t\n", "\n\n\n"])
def test_blank_documents_have_no_passages(text: str) -> None:
    assert cut(text, "n.txt") == cut(text, "n.md") == []


@pytest.mark.parametrize(("max_tokens", "overlap"), [(7, 0), (100, -1), (100, 51)])
def test_limits_that_make_no_sense_are_refused(max_tokens: int, overlap: int) -> None:
    with pytest.raises(ValueError, match=r"max_tokens=7|overlap=(-1|51)"):
        ChunkConfig(max_tokens, overlap)


def test_the_approximate_count_is_near_that_of_word_pieces() -> None:
    from tokenizers import Tokenizer

    from retrieval.offline_model import packaged_folder

    folder = packaged_folder()
    if folder is None:
        pytest.skip("the extra 'offline' is not installed")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    text = (folder / "README.md").read_text(encoding="utf-8")
    exact = len(tokenizer.encode(text, add_special_tokens=False).ids)
    assert 0.75 < approximate_tokens(text) / exact < 1.25
