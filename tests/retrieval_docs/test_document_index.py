"""An index follows its folders: it re-reads what changed, nothing else, and survives being killed."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from counted_embeddings import CountedEmbeddings
from filelock import FileLock

from retrieval import folder_reading, offline_model
from retrieval.chunking import ChunkConfig
from retrieval.document_index import LOCK, DocumentIndex
from retrieval.index_summary import IndexSummary, Progress
from retrieval.loaders import load


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "guide.md").write_text(
        "# Guide\n\nPress the red button.\n\n## Reset\n\nHold it for ten seconds.\n"
    )
    (folder / "notes.txt").write_text("The kettle boils at noon.\n")
    (folder / "deep" / "er" / "page.html").write_text("<h1>Zebra</h1><p>Zebras have stripes.</p>")
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Iterator[DocumentIndex]:
    opened = DocumentIndex(tmp_path / "index", CountedEmbeddings())
    yield opened
    opened.close()


def content(index: DocumentIndex) -> dict[str, tuple[str, dict[str, Any]]]:
    """What both searches hold, after checking that they agree with the records."""
    assert index.words is not None
    wanted = {document.id: (document.page_content, document.metadata) for document in index.documents()}
    assert set(index.words.ids_by_position) == set(wanted)
    by_words = index.words.get_by_ids(list(wanted))  # type: ignore[arg-type]
    assert {one.id: (one.page_content, one.metadata) for one in by_words} == wanted
    if index.vectors is not None:
        assert {one.id: (one.page_content, one.metadata) for one in index.vectors.documents()} == wanted
    return wanted  # type: ignore[return-value]


def counts(summary: IndexSummary) -> tuple[int, ...]:
    return summary.added, summary.changed, summary.renamed, summary.unchanged, summary.removed


def fresh(docs: Path, folder: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    index = DocumentIndex(folder, CountedEmbeddings())
    index.index([docs])
    found = content(index)
    index.close()
    return found


def test_a_folder_becomes_searchable_with_places_that_can_be_cited(index: DocumentIndex, docs: Path) -> None:
    summary = index.index([docs])
    assert counts(summary) == (3, 0, 0, 0, 0)
    assert (summary.files, summary.passages, summary.skipped, summary.notice) == (3, 4, (), "")
    best = index.retriever(k=2).invoke("how long do I hold it")[0]
    assert best.page_content == "## Reset\n\nHold it for ten seconds."
    assert best.metadata["heading"] == "Guide > Reset"
    assert best.metadata["title"] == "Guide"
    assert best.metadata["source"] == str(docs / "guide.md")
    for document in index.documents():
        text = load(document.metadata["source"]).text
        assert text[document.metadata["start"] : document.metadata["end"]] == document.page_content


def test_indexing_again_touches_only_what_changed(index: DocumentIndex, docs: Path, tmp_path: Path) -> None:
    index.index([docs])
    embeddings = index.embeddings
    assert isinstance(embeddings, CountedEmbeddings)
    embeddings.asked.clear()
    assert counts(index.index([docs])) == (0, 0, 0, 3, 0)
    assert embeddings.asked == []
    (docs / "guide.md").write_text(
        "# Guide\n\nPress the red button.\n\n## Reset\n\nHold it for two minutes.\n"
    )
    (docs / "new.txt").write_text("Something new.")
    (docs / "notes.txt").unlink()
    assert counts(index.index([docs])) == (1, 1, 0, 1, 1)
    assert sorted(embeddings.asked) == ["## Reset\n\nHold it for two minutes.", "Something new."]
    assert content(index) == fresh(docs, tmp_path / "fresh")


def test_files_that_were_not_touched_are_not_even_opened(
    index: DocumentIndex, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in docs.rglob("*.*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    index.index([docs])
    opened: list[Path] = []
    monkeypatch.setattr(folder_reading, "read", lambda path: opened.append(path) or path.read_bytes())
    (docs / "notes.txt").write_text("Tea at five o'clock.\n")
    assert counts(index.index([docs])) == (0, 1, 0, 2, 0)
    assert opened == [docs / "notes.txt"]


def test_an_edit_of_the_same_length_in_the_same_instant_is_seen(index: DocumentIndex, docs: Path) -> None:
    index.index([docs])
    status = (docs / "notes.txt").stat()
    (docs / "notes.txt").write_text("The kettle boils at nine.\n")
    os.utime(docs / "notes.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert index.index([docs]).changed == 1
    assert index.retriever().invoke("kettle")[0].page_content == "The kettle boils at nine."


def test_a_renamed_file_is_found_under_its_new_name_only(
    index: DocumentIndex, docs: Path, tmp_path: Path
) -> None:
    index.index([docs])
    (docs / "notes.txt").rename(docs / "deep" / "kettle.txt")
    assert counts(index.index([docs])) == (0, 0, 1, 2, 0)
    (found,) = index.retriever(k=1).invoke("kettle")
    assert (found.metadata["source"], found.metadata["title"]) == (
        str(docs / "deep" / "kettle.txt"),
        "kettle",
    )
    assert content(index) == fresh(docs, tmp_path / "fresh")


def test_copies_of_a_file_are_one_answer_until_the_first_is_gone(index: DocumentIndex, docs: Path) -> None:
    shutil.copy(docs / "notes.txt", docs / "a copy.txt")
    assert index.index([docs]).passages == 4
    assert index.retriever(k=1).invoke("kettle")[0].metadata["source"].endswith("a copy.txt")
    (docs / "a copy.txt").unlink()
    index.index([docs])
    assert index.retriever(k=1).invoke("kettle")[0].metadata["source"].endswith("notes.txt")
    assert len(content(index)) == 4


def test_folders_indexed_before_stay_and_are_looked_at_again_without_naming_them(
    index: DocumentIndex, docs: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("A file on its own.")
    index.index([docs])
    assert counts(index.index([other])) == (1, 0, 0, 3, 0)
    (docs / "notes.txt").unlink()
    other.unlink()
    assert counts(index.index()) == (0, 0, 0, 2, 2)
    assert counts(index.index()) == (0, 0, 0, 2, 0)


def test_a_folder_that_is_not_there_leaves_the_index_as_it_is(index: DocumentIndex, docs: Path) -> None:
    index.index([docs])
    docs.rename(docs.with_name("unmounted"))
    with pytest.raises(ValueError, match="does not exist"):
        index.index()
    assert len(content(index)) == 4
    assert counts(index.remove([docs])) == (0, 0, 0, 0, 3)
    assert content(index) == {}
    assert index.retriever().invoke("kettle") == []
    with pytest.raises(ValueError, match="no folders to look at again"):
        index.index()


def test_what_cannot_be_read_is_reported_and_the_rest_is_indexed(index: DocumentIndex, docs: Path) -> None:
    (docs / "latin.txt").write_bytes(b"caf\xe9")
    (docs / "photo.png").write_bytes(b"\x89PNG")
    (docs / "empty.md").touch()
    (docs / "blank.txt").write_text(" \n\n ")
    (docs / "zeros.txt").write_bytes(b"ab\0" * 50)
    (docs / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    (docs / "broken.docx").write_bytes(b"PK\x03\x04 and no more")
    (docs / ".hidden.txt").write_text("hidden")
    (docs / ".git").mkdir()
    (docs / ".git" / "notes.txt").write_text("hidden too")
    (docs / "dangling.txt").symlink_to(docs / "nothing")
    os.mkfifo(docs / "pipe.txt")
    for _ in range(2):  # the second time from memory, which tells the same
        summary = index.index([docs])
        reasons = {Path(one.path).name: one.reason for one in summary.skipped}
        assert summary.files == 3
        assert set(reasons) == {
            *("latin.txt", "photo.png", "empty.md", "blank.txt", "zeros.txt"),
            *("broken.pdf", "broken.docx", "dangling.txt", "pipe.txt"),
        }
        assert "0xe9 at offset 3" in reasons["latin.txt"]
        assert reasons["empty.md"] == "it is empty"
        assert reasons["blank.txt"] == "it has no text"
        assert "binary" in reasons["zeros.txt"]
        assert "(.png)" in reasons["photo.png"]
    (docs / "latin.txt").write_text("café", encoding="utf-8")
    assert index.index([docs]).added == 1


def test_a_folder_whose_entries_may_not_be_looked_at_is_reported(
    index: DocumentIndex, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its names may be listed, as where it has the right to be read but not to be entered."""
    locked = docs / "locked"
    locked.mkdir()
    (locked / "secret.txt").write_text("secret")
    is_dir = Path.is_dir

    def refused(path: Path) -> bool:
        if path.parent == locked:
            raise PermissionError(errno.EACCES, "Permission denied")
        return is_dir(path)

    monkeypatch.setattr(Path, "is_dir", refused)
    summary = index.index([docs])
    assert summary.files == 3
    assert [(one.path, one.reason) for one in summary.skipped] == [
        (str(locked), "cannot be listed (Permission denied)")
    ]


def test_a_file_that_has_become_unreadable_leaves_the_index(index: DocumentIndex, docs: Path) -> None:
    index.index([docs])
    (docs / "notes.txt").write_bytes(b"\xff\xfe\x00")
    summary = index.index([docs])
    assert counts(summary) == (0, 0, 0, 2, 1)
    assert len(content(index)) == 3


def test_a_huge_text_file_is_skipped_without_being_read(index: DocumentIndex, docs: Path) -> None:
    with (docs / "huge.txt").open("wb") as file:
        file.truncate((50 << 20) + 1)
    (skipped,) = index.index([docs]).skipped
    assert "50 MB" in skipped.reason


def test_loops_of_links_end_and_each_folder_is_read_once(index: DocumentIndex, docs: Path) -> None:
    (docs / "deep" / "loop").symlink_to(docs)
    (docs / "again").symlink_to(docs / "deep")
    summary = index.index([docs])
    assert summary.files == 3
    assert counts(index.index([docs])) == (0, 0, 0, 3, 0)


def test_an_index_inside_its_folder_does_not_index_itself(docs: Path) -> None:
    index = DocumentIndex(docs / "index", None)
    assert index.index([docs]).files == 3
    (docs / "index" / "stray.txt").write_text("not a document")
    assert counts(index.index([docs])) == (0, 0, 0, 3, 0)


def test_an_index_is_the_same_after_it_was_closed(docs: Path, tmp_path: Path) -> None:
    first = DocumentIndex(tmp_path / "index", CountedEmbeddings())
    first.index([docs])
    found = [document.id for document in first.retriever(k=4).invoke("kettle button")]
    first.close()
    again = DocumentIndex.open(tmp_path / "index", embeddings := CountedEmbeddings())
    assert [document.id for document in again.retriever(k=4).invoke("kettle button")] == found
    assert counts(again.index()) == (0, 0, 0, 3, 0)
    assert embeddings.asked == []
    again.close()


def test_without_embeddings_words_are_searched_and_it_says_so(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline_model, "PACKAGE", "no-such-distribution")
    index = DocumentIndex(tmp_path / "index")
    summary = index.index([docs])
    assert "echodraft[offline]" in summary.notice == index.notice
    assert index.vectors is None
    assert index.retriever(k=1).invoke("stripes")[0].metadata["title"] == "Zebra"
    assert index.retriever(k=1).invoke("nothing of the kind") == []


def test_an_index_by_words_gets_vectors_when_a_model_comes(docs: Path, tmp_path: Path) -> None:
    DocumentIndex(tmp_path / "index", None).index([docs])
    index = DocumentIndex(tmp_path / "index", CountedEmbeddings())
    assert "no vectors yet" in index.notice
    assert index.retriever(k=1).invoke("stripes")[0].metadata["title"] == "Zebra"
    assert counts(index.index()) == (0, 0, 0, 3, 0)
    assert index.notice == ""
    assert len(content(index)) == len(index.vectors or ()) == 4
    index.close()


def test_another_embedding_model_is_refused_with_the_remedy(docs: Path, tmp_path: Path) -> None:
    DocumentIndex(tmp_path / "index", CountedEmbeddings("one")).index([docs])
    with pytest.raises(
        ValueError, match=r"made with the embedding model one, not two; open it with that model, or"
    ):
        DocumentIndex(tmp_path / "index", CountedEmbeddings("two"))
    without = DocumentIndex(tmp_path / "index", None)
    assert without.retriever(k=1).invoke("stripes")[0].metadata["title"] == "Zebra"
    with pytest.raises(ValueError, match="made with the embedding model one, which is needed to change it"):
        without.index([docs])


def test_other_chunking_cuts_the_files_again(docs: Path, tmp_path: Path) -> None:
    (docs / "notes.txt").write_text(" ".join(f"Sentence {i} is about tea." for i in range(40)))
    DocumentIndex(tmp_path / "index", None).index([docs])
    index = DocumentIndex(tmp_path / "index", None, chunking=ChunkConfig(16, 4))
    before = len(index)
    summary = index.index()
    assert summary.passages > before + 5
    assert DocumentIndex(tmp_path / "index", None).chunking == ChunkConfig(16, 4)


def test_a_folder_of_other_files_does_not_become_an_index(docs: Path) -> None:
    with pytest.raises(ValueError, match="is no index and holds"):
        DocumentIndex(docs, None)
    with pytest.raises(ValueError, match="there is no index at"):
        DocumentIndex.open(docs, None)
    with pytest.raises(ValueError, match="is a file"):
        DocumentIndex(docs / "notes.txt", None)
    assert sorted(path.name for path in docs.iterdir()) == ["deep", "guide.md", "notes.txt"]


def test_damaged_records_name_themselves_and_the_remedy(docs: Path, tmp_path: Path) -> None:
    DocumentIndex(tmp_path / "index", None).index([docs])
    (tmp_path / "index" / "documents.sqlite").write_bytes(b"garbage, and not a little of it" * 100)
    with pytest.raises(ValueError, match=r"documents\.sqlite is damaged .* index again"):
        DocumentIndex.open(tmp_path / "index", None)


@pytest.mark.parametrize("part", ["words", "vectors"])
def test_a_search_that_was_deleted_is_made_again(docs: Path, tmp_path: Path, part: str) -> None:
    first = DocumentIndex(tmp_path / "index", CountedEmbeddings())
    first.index([docs])
    first.close()
    shutil.rmtree(tmp_path / "index" / part)
    index = DocumentIndex.open(tmp_path / "index", CountedEmbeddings())
    assert not index.is_complete
    index.index()
    assert index.is_complete
    assert len(content(index)) == 4
    index.close()


def test_an_empty_path_is_not_the_current_folder(index: DocumentIndex) -> None:
    with pytest.raises(ValueError, match="empty path"):
        index.index([""])


def test_two_writers_do_not_meet(index: DocumentIndex, docs: Path) -> None:
    with FileLock(index.path / LOCK), pytest.raises(TimeoutError, match="another process is indexing"):
        index.index([docs])
    assert index.index([docs]).files == 3


def test_another_opening_of_the_index_goes_on_from_what_was_written(docs: Path, tmp_path: Path) -> None:
    one, two = (DocumentIndex(tmp_path / "index", CountedEmbeddings()) for _ in range(2))
    one.index([docs])
    (docs / "notes.txt").unlink()
    two.index([docs])
    (docs / "notes.txt").write_text("The kettle is back.")
    one.index()
    assert one.retriever(k=1).invoke("kettle")[0].page_content == "The kettle is back."
    assert content(one) == fresh(docs, tmp_path / "fresh")
    one.close()
    two.close()


def test_progress_is_told_and_ends_complete(index: DocumentIndex, docs: Path) -> None:
    told: list[Progress] = []
    index.index([docs], told.append)
    last = {progress.step: (progress.done, progress.total) for progress in told}
    assert last == {"reading": (3, 3), "embedding": (4, 4), "saving": (1, 1)}
    assert [Path(one.path).name for one in told if one.path] == ["page.html", "guide.md", "notes.txt"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_killed_anywhere_and_started_again_it_ends_in_the_same_index(docs: Path, tmp_path: Path) -> None:
    for number in range(34):  # two commits of the reading
        (docs / f"file {number}.txt").write_text(f"Document {number} is about matter {number * 7}.")
    expected = fresh(docs, tmp_path / "fresh")
    DocumentIndex(tmp_path / "old", CountedEmbeddings()).index([docs / "deep"])
    for moment in (5, 35, 38, 39, 40):
        index = tmp_path / f"index {moment}"
        shutil.copytree(tmp_path / "old", index)
        assert in_fork(partial(index_and_die, docs, index, moment)) == 9
        again = DocumentIndex(index, CountedEmbeddings())
        assert not again.is_complete
        again.index([docs])
        assert content(again) == expected
        assert again.is_complete
        again.close()


def index_and_die(docs: Path, folder: Path, moment: int) -> None:
    told = 0

    def progress(_: Progress) -> None:
        nonlocal told
        if told == moment:
            os._exit(9)
        told += 1

    DocumentIndex(folder, CountedEmbeddings()).index([docs], progress)


def in_fork(work: Callable[[], None]) -> int:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)  # it was meant to die before
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
