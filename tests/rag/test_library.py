"""Documents are indexed, looked up, and judged good enough or not."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from langchain_core.embeddings import Embeddings

from apps.rag.library import Library, build, open_handbook, open_library
from retrieval.document_index import DocumentIndex

pytest.importorskip("bm25s")
pytest.importorskip("langchain_text_splitters")

GUIDE = """# Guide

## The budget

The budget decides how many nodes are verified in a pass.

## Cats

Cats sleep for most of the day, and hunt at dawn.
"""


class HashedWords(Embeddings):
    """A vector with one place for each word: texts that share words are alike."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = [0.0] * 64
        for word in text.lower().replace("?", "").replace(".", "").split():
            vector[hashlib.sha256(word.encode()).digest()[0] % 64] += 1.0
        return vector


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "guide.md").write_text(GUIDE, encoding="utf-8")
    return folder


def by_words(folder: Path, documents: Path) -> Library:
    index = DocumentIndex(folder, None)
    index.index([documents])
    return Library(index)


def test_a_passage_is_found_with_its_place_and_a_score_that_means_something(
    documents: Path, tmp_path: Path
) -> None:
    library = by_words(tmp_path / "index", documents)
    (source, *_) = library.find("What does the budget decide?", 3)
    assert "how many nodes" in source.text
    assert source.title == "Guide"
    assert source.heading.endswith("The budget")
    assert source.document == str(documents / "guide.md")
    assert source.start is not None
    assert source.end is not None
    assert source.end - source.start == len(source.text)
    assert source.score == pytest.approx(1.0)
    assert "2 passages of 1 documents, searched by words" in library.description


def test_an_indexing_that_was_killed_between_vectors_and_words_leaves_questions_answered(
    documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the words still have and the vectors no more is left out; the next indexing completes it."""
    index = DocumentIndex(tmp_path / "index", HashedWords())
    index.index([documents])
    (documents / "guide.md").write_text(GUIDE.replace("hunt", "catch mice"), encoding="utf-8")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("retrieval.searches.Bm25Index.from_documents", killed)
        with pytest.raises(KeyboardInterrupt):
            index.index([documents])
    index.close()
    library = Library(DocumentIndex.open(tmp_path / "index", HashedWords()), min_score=-1)
    found = library.find("cats hunt at dawn", 4)
    assert "catch mice" in " ".join(source.text for source in found)
    assert all("hunt" not in source.text for source in found)
    library.index.index([documents])
    assert "catch mice" in library.find("cats catch mice at dawn", 1)[0].text


def test_nothing_is_found_for_what_the_documents_do_not_tell(documents: Path, tmp_path: Path) -> None:
    library = by_words(tmp_path / "index", documents)
    assert library.find("Who discovered radium in Paris?", 3) == []
    # One common word of many is not enough; with a lower threshold it is.
    asked = "Which pass crosses the highest Alpine summit?"
    assert library.find(asked, 3) == []
    library.min_score = 0.05
    assert library.find(asked, 3)


def test_with_vectors_the_score_is_the_cosine(documents: Path, tmp_path: Path) -> None:
    index = DocumentIndex(tmp_path / "index", HashedWords())
    index.index([documents])
    library = Library(index)
    assert library.has_vectors
    found = library.find("when do cats sleep", 2)
    assert "Cats sleep" in found[0].text
    assert found[0].score is not None
    assert 0.3 <= found[0].score <= 1.0
    assert Library(index, min_score=0.99).find("when do cats sleep", 2) == []
    with pytest.raises(ValueError, match="min_score=3"):
        Library(index, min_score=3)


def test_an_index_that_is_not_there_or_is_damaged_is_named_with_the_remedy(
    documents: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"no index at .*nowhere; make one with python -m apps.rag index"):
        open_library(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="give an empty or a new folder"):
        build([documents], documents)
    by_words(tmp_path / "index", documents).index.close()
    (tmp_path / "index" / "documents.sqlite").write_bytes(b"SQLite format 3\0 and then nothing good" * 100)
    with pytest.raises(ValueError, match="index again"):
        open_library(tmp_path / "index")


def test_building_tells_what_changed_and_what_could_not_be_read(documents: Path, tmp_path: Path) -> None:
    (documents / "broken.pdf").write_bytes(b"no pdf")
    report = build([documents], tmp_path / "index")
    assert report.failures == 1
    assert "broken.pdf" in report.lines[0]
    assert "2 passages of 1 documents (1 new, 1 left out)" in report.lines[-1]
    (documents / "broken.pdf").unlink()
    assert "(1 unchanged)" in build([documents], tmp_path / "index").lines[-1]


@pytest.fixture
def handbook(documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ECHODRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("apps.rag.library.handbook", lambda: documents)
    # The packaged encoder takes seconds to load; words alone show the same.
    monkeypatch.setattr(
        "retrieval.document_index.default_embeddings", lambda *_, **__: (None, "by words alone")
    )
    return documents


def test_the_handbook_is_indexed_once_and_again_when_it_changed(
    handbook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert open_handbook().find("What does the budget decide?", 1)
    assert "indexing the handbook" in capsys.readouterr().err
    open_handbook()
    assert "indexing" not in capsys.readouterr().err
    (handbook / "new.md").write_text("# New\n\nZebras have stripes.\n", encoding="utf-8")
    assert open_handbook().find("Do zebras have stripes?", 1)
    assert "indexing" in capsys.readouterr().err


def test_the_handbooks_of_two_copies_have_indexes_of_their_own(
    handbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = len(open_handbook().index)
    shutil.copytree(handbook, tmp_path / "copy")
    (tmp_path / "copy" / "new.md").write_text("# New\n\nZebras have stripes.\n", encoding="utf-8")
    monkeypatch.setattr("apps.rag.library.handbook", lambda: tmp_path / "copy")
    assert len(open_handbook().index) == mine + 1
    monkeypatch.setattr("apps.rag.library.handbook", lambda: handbook)
    assert len(open_handbook().index) == mine


def test_a_damaged_index_of_the_handbook_is_built_again(handbook: Path, tmp_path: Path) -> None:
    library = open_handbook()
    kept = library.history_path
    library.index.close()
    for file in (tmp_path / "cache").glob("handbook-*/words/**/*"):
        if file.is_file():
            file.write_bytes(b"broken")
    kept.write_text("", encoding="utf-8")
    assert open_handbook().find("What does the budget decide?", 1)
    assert kept.exists()


def test_the_shipped_handbook_makes_thirty_to_sixty_passages(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "data" / "handbook"
    library = by_words(tmp_path / "index", shipped)
    assert 30 <= len(library.index) <= 60
    questions = {
        "What is a bonus token?": "bonus token",
        "How many edits does the correction memory keep?": "20,000",
        "Which exit code means that a job was interrupted?": "130",
        "What is the default for max_new_tokens?": "256",
        "What does the option --workers say?": "--workers",
        "Which drafter takes several draft models?": "spec_infer",
        "How is a drafter trained to agree with its target?": "core.alignment",
        "What is FLARE?": "--method",
    }
    for question, told in questions.items():
        assert any(told in source.text for source in library.find(question, 3)), question
    assert library.find("Who won the football world cup in 1954?", 5) == []
