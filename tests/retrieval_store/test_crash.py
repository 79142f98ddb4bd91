"""Files that were cut, swapped or changed are named, never believed; a killed writer leaves a whole store."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from retrieval import Bm25Index, FaissStore

from .conftest import Opener
from .counting import LetterCounts, random_matrix

ROOT = Path(__file__).parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="forks, kills and changes users as POSIX does")


@posix
def test_a_writer_killed_at_any_step_leaves_the_old_generation_or_the_new(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.retrieval_store.crashing", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
    steps = re.search(r"^(\d+) steps$", ran.stderr, re.MULTILINE)
    assert steps, ran.stderr
    assert int(steps[1]) > 40


def damaged(content: bytes, how: str) -> bytes:
    text = content.find(b"hello 25")  # in a file with texts, damage one
    middle = text if text >= 0 else len(content) // 2
    if how == "flipped":
        return content[:middle] + bytes([content[middle] ^ 0x55]) + content[middle + 1 :]
    return {"cut": content[:middle], "emptied": b"", "foreign": b"\x80\x04garbage" * 99}[how]


@pytest.mark.parametrize("how", ["cut", "emptied", "foreign", "flipped", "removed", "swapped"])
@pytest.mark.parametrize("pattern", ["manifest.json", "passages.sqlite", "vectors-*.faiss"])
def test_a_damaged_file_of_a_store_is_named_with_the_remedy(
    opened: Opener, tmp_path: Path, pattern: str, how: str
) -> None:
    for name, text in (("store", "hello"), ("other", "world")):
        store = opened(LetterCounts(), name)
        store.add_texts([f"{text} {i}" for i in range(50)])
        store.close()
    (path,) = (tmp_path / "store").glob(pattern)
    if how == "removed":
        path.unlink()
    elif how == "swapped":
        (other,) = (tmp_path / "other").glob(pattern)
        shutil.copy(other, path)
    else:
        path.write_bytes(damaged(path.read_bytes(), how))
    with pytest.raises(ValueError, match=r"index anew") as caught:
        opened(LetterCounts())
    assert str(tmp_path / "store") in str(caught.value)
    if how != "removed" and pattern != "manifest.json":
        assert path.name in str(caught.value)


@pytest.mark.parametrize(
    "edit", [{"metric": "l2"}, {"count": 7}, {"format": 99}, {"embedding": "x"}, {"more": 1}]
)
def test_an_edited_manifest_is_refused(opened: Opener, edit: dict[str, object]) -> None:
    store = opened(LetterCounts())
    store.add_texts(["a"])
    path = store.path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **edit}))
    with pytest.raises(ValueError, match=r"manifest\.json (was changed|has format 99)"):
        opened(LetterCounts())


def test_the_files_of_a_store_are_not_taken_for_a_new_one(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "passages.sqlite").write_bytes(b"precious")
    with pytest.raises(ValueError, match=r"is here without a manifest\.json"):
        opened()
    assert (tmp_path / "store" / "passages.sqlite").read_bytes() == b"precious"


@pytest.mark.parametrize("how", ["cut", "emptied", "foreign", "flipped", "removed"])
def test_a_damaged_file_of_a_bm25_index_is_named_with_the_remedy(tmp_path: Path, how: str) -> None:
    made = Bm25Index.from_texts([f"hello number {i}" for i in range(20)], path=tmp_path / "made")
    files = [
        path.relative_to(made.path or "") for path in (made.path or tmp_path).rglob("*.*") if path.is_file()
    ]
    for file in files:
        if file.name == "write.lock":
            continue
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(tmp_path / "made", tmp_path / "copy")
        path = tmp_path / "copy" / file
        if how == "removed":
            path.unlink()
        else:
            path.write_bytes(damaged(path.read_bytes(), how))
        with pytest.raises(ValueError, match=r"index anew|build the index") as caught:
            Bm25Index(path=tmp_path / "copy")
        assert path.name in str(caught.value)


@posix
def test_a_folder_that_cannot_be_written_is_read_and_says_so_on_writing(
    opened: Opener, tmp_path: Path
) -> None:
    store = opened()
    store.add_vectors(["a", "b"], None, random_matrix(2))
    store.close()
    script = """
import os, sys
from retrieval import FaissStore
if os.geteuid() == 0:
    os.setuid(65534)
if not os.access(sys.argv[1], os.R_OK | os.X_OK):
    print("out of reach")
    raise SystemExit
store = FaissStore(None, sys.argv[1])
print(len(store), "passages,", len(store.search_vectors([[1.0] * 16], k=9).ids[0]), "found")
try:
    store.add_vectors(["c"], None, [[1.0] * 16])
except PermissionError as error:
    print(error)
"""
    for folder in [tmp_path, *tmp_path.parents[:2]]:
        folder.chmod(0o755)
    (tmp_path / "store").chmod(0o555)
    for path in (tmp_path / "store").iterdir():
        path.chmod(0o444)
    command = [sys.executable, "-c", script, str(tmp_path / "store")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    (tmp_path / "store").chmod(0o755)
    if ran.stdout == "out of reach\n":
        pytest.skip("the temporary folder is closed to other users")
    assert "2 passages, 2 found" in ran.stdout, ran.stderr
    assert "cannot be written; change its rights" in ran.stdout, ran.stderr


def test_another_process_sees_whole_generations_and_takes_up_newer_ones(opened: Opener) -> None:
    """Two objects on one folder share nothing in memory, as two processes would not."""
    writer = opened(LetterCounts())
    writer.add_texts(["aaa"], ids=["1"])
    reader = opened(LetterCounts())
    writer.add_texts(["bbb"], ids=["1"])
    assert reader.is_stale()
    assert [d.page_content for d in reader.similarity_search("a")] == ["aaa"]
    assert reader.reload()
    assert not reader.is_stale()
    assert not reader.reload()
    assert [d.page_content for d in reader.similarity_search("a")] == ["bbb"]
    for text in ("ccc", "ddd", "eee"):  # so far ahead that the reader's own rows are gone
        writer.add_texts([text], ids=["1"])
    assert [d.page_content for d in reader.similarity_search("a")] == ["eee"]


def test_two_writers_take_turns_and_lose_nothing(opened: Opener) -> None:
    one, two = opened(LetterCounts()), opened(LetterCounts())
    for i in range(4):
        one.add_texts([f"one {i}"])
        two.add_texts([f"two {i}"])
    assert one.reload()
    assert len(one) == len(two) == len(opened(LetterCounts())) == 8
    impatient = FaissStore(LetterCounts(), one.path, lock_timeout=0.05)
    with one.transaction(), pytest.raises(TimeoutError, match="being written by another"):
        impatient.add_texts(["three"])
    impatient.add_texts(["three"])
    impatient.close()


@posix
def test_a_lock_dies_with_its_process(opened: Opener) -> None:
    store = opened(LetterCounts())
    script = "import filelock, os, sys; filelock.FileLock(sys.argv[1]).acquire(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", script, str(store.path / "write.lock")], check=False)
    assert (store.path / "write.lock").exists()
    store.add_texts(["a"])
    assert len(store) == 1
