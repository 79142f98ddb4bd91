"""The datastore finds every longest match, on the disk as in memory, and refuses what is not its own."""

from __future__ import annotations

import json
from collections.abc import Sequence as Seq
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.drafters.datastore import Datastore, store
from core.drafters.datastore.__main__ import main
from core.drafters.datastore.contexts import MAX_CONTEXT, Contexts, sort_places
from tests.drafters.writing import UNHURRIED, VOCAB, cycle, passes, row_of

TOKENS = st.integers(3, 5)


def contexts_of(tokens: Seq[int]) -> Contexts:
    array = np.array(tokens, np.int64)
    return Contexts(array, sort_places(array))


@given(st.lists(TOKENS, max_size=60))
@UNHURRIED
def test_places_are_sorted_by_what_stands_before_them(tokens: list[int]) -> None:
    places = sort_places(np.array(tokens, np.int64)).tolist()
    assert sorted(places) == list(range(1, len(tokens)))
    contexts = [tokens[max(0, p - MAX_CONTEXT) : p][::-1] for p in places]
    assert contexts == sorted(contexts)


@given(tokens=st.lists(TOKENS, max_size=60), written=st.lists(TOKENS, max_size=MAX_CONTEXT))
@UNHURRIED
def test_the_longest_match_is_found_everywhere(tokens: list[int], written: list[int]) -> None:
    positions, length = contexts_of(tokens).longest_match(written)
    found: list[int] = []
    longest = 0
    for size in range(1, len(written) + 1):
        ends = [p for p in range(size, len(tokens)) if tokens[p - size : p] == written[-size:]]
        if ends:
            found, longest = ends, size
    assert length == longest
    assert sorted(positions.tolist()) == found


def test_a_store_on_the_disk_drafts_like_one_in_memory(tmp_path: Path) -> None:
    tokens = np.array([*range(10, 50), VOCAB, *range(10, 30), VOCAB], np.int64)
    store.build(tmp_path / "store", tokens, VOCAB)
    mapped = Datastore(VOCAB, path=tmp_path / "store")
    assert isinstance(mapped._contexts.tokens, np.memmap)
    taken = passes(mapped, row_of([3]), 40, cycle(40))
    assert taken < 12
    in_memory = Datastore(VOCAB, corpus=[])
    in_memory._contexts = Contexts(tokens, sort_places(tokens))
    assert taken == passes(in_memory, row_of([3]), 40, cycle(40))
    assert passes(Datastore(VOCAB, corpus=list(range(10, 50))), row_of([3]), 40, cycle(40)) < 15


def test_a_store_without_a_corpus_learns_what_is_written() -> None:
    drafter = Datastore(VOCAB, max_learnt=1000)
    taken = [passes(drafter, row_of([3], id=i), 60, cycle(50)) for i in range(20)]
    assert taken[0] == 60
    assert taken[-1] < 20
    assert len(drafter._learnt) <= 1000


def test_a_store_of_another_vocabulary_or_size_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with pytest.raises(ValueError, match="no datastore"):
        Datastore(VOCAB, path=folder)
    store.build(folder, np.arange(10, 50), VOCAB)
    with pytest.raises(ValueError, match="exists already"):
        store.build(folder, np.arange(10, 50), VOCAB)
    with pytest.raises(ValueError, match="vocabulary of 64 tokens, the model has 65"):
        Datastore(VOCAB + 1, path=folder)
    np.save(folder / "tokens.npy", np.arange(10, 40, dtype=np.uint16))
    assert store.damaged(folder) == ["tokens.npy"]
    with pytest.raises(ValueError, match="holds 30 tokens"):
        Datastore(VOCAB, path=folder)
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 99}))
    with pytest.raises(ValueError, match="format 99"):
        Datastore(VOCAB, path=folder)


def test_a_broken_build_leaves_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(tokens: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "sort_places", fails)
    with pytest.raises(KeyboardInterrupt):
        store.build(tmp_path / "store", np.arange(10, 50), VOCAB)
    assert not (tmp_path / "store").exists()
    monkeypatch.undo()
    store.build(tmp_path / "store", np.arange(10, 50), VOCAB)
    assert store.damaged(tmp_path / "store") == []


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 2
    assert "no datastore" in capsys.readouterr().err
    missing = tmp_path / "missing.txt"
    assert main(["build", str(tmp_path / "out"), str(missing), "--tokenizer", "any"]) == 2
    assert "missing.txt" in capsys.readouterr().err
    store.build(tmp_path / "good", np.arange(10, 50), VOCAB)
    assert main(["check", str(tmp_path / "good")]) == 0
    assert json.loads(capsys.readouterr().out) == {"damaged": []}


def test_the_command_builds_a_store_for_the_shipped_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Path(__file__).parent.parent.parent / "data" / "models" / "gec-small"
    if not model.is_dir():
        pytest.skip("the shipped model is absent")
    text = tmp_path / "text.txt"
    text.write_text("She goes to school.\n\nHe goes to work every day.\n", encoding="utf-8")
    out = tmp_path / "store"
    assert main(["build", str(out), str(text), "--tokenizer", str(model), "--max-tokens", "1000"]) == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest["tokenizer"] == "gec-small"
    contexts, _ = store.open_store(out, manifest["vocab_size"])
    assert contexts.tokens.tolist().count(manifest["separator"]) == 2
    assert manifest["num_tokens"] == len(contexts.tokens) > 10
