"""The questions of `bench rag`, and that every runtime which writes float32 answers writes the same ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.bench.rag.chatters import Chatter, CTranslate2Chatter, EngineChatter, TransformersChatter
from apps.bench.rag.command import RagBench
from apps.bench.rag.contestants import BASELINE, PLAIN
from apps.bench.rag.questions import prepare
from tests.rag.rag_models import save_chat_model

QUESTIONS = ["What do bees do?", "Where does the Danube flow?"]


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random chat model; its tokens are bytes."""
    return str(save_chat_model(tmp_path_factory.mktemp("chat"), context=4096))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An index of two short documents."""
    from apps.rag.library import build

    folder = tmp_path_factory.mktemp("index")
    documents = folder / "documents"
    documents.mkdir()
    (documents / "bees.txt").write_text("Bees dance to tell where flowers stand.")
    (documents / "rivers.txt").write_text("The Danube flows through Vienna.")
    build([documents], folder / "index")
    return str(folder / "index")


def test_every_runtime_writes_the_same_answer(chat_model: str, index: str) -> None:
    """Looked up, read and written by each; ours say how many passes that took."""
    common: dict[str, Any] = {"model": chat_model, "index": index, "k": 2, "max_new_tokens": 24}
    chatters: list[Chatter] = [
        TransformersChatter(**common, dtype="float32"),
        TransformersChatter(**common, dtype="float32", prompt_lookup_tokens=10),
        EngineChatter(**common, drafter="none", dtype="float32"),
        EngineChatter(**common, drafter="copy", dtype="float32"),
    ]
    first, *others = [chatter(QUESTIONS, 1) for chatter in chatters]
    assert all(out.token_ids for out in first)
    for outputs in others:
        assert [out.token_ids for out in outputs] == [out.token_ids for out in first]
    # A random model copies next to nothing, and what does not pay is not asked for.
    assert all(out.passes is not None and 1 <= out.passes <= 24 for outputs in others[1:] for out in outputs)


def test_ctranslate2_writes_the_same_answer(chat_model: str, index: str) -> None:
    """The converted weights say what transformers says."""
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    from apps.bench.peers import ctranslate2_copy

    common: dict[str, Any] = {"model": chat_model, "index": index, "k": 2, "max_new_tokens": 24}
    with ctranslate2_copy(Path(chat_model)) as converted:
        peer = CTranslate2Chatter(**common, converted=str(converted), compute_type="float32", threads=1)
        said = peer(QUESTIONS, 1)
    expected = TransformersChatter(**common, dtype="float32")(QUESTIONS, 1)
    assert [out.token_ids for out in said] == [out.token_ids for out in expected]


def test_batches_are_refused(chat_model: str, index: str) -> None:
    """A chat has one question at a time."""
    chatter = EngineChatter(chat_model, index, 2, 8, "none", "float32")
    with pytest.raises(ValueError, match="one at a time"):
        chatter(QUESTIONS, 2)


def test_questions_come_with_their_passages(tmp_path: Path) -> None:
    """Each question of the held split has its passage in the index; without the sets the handbook is asked about."""
    from apps.rag.training.qa_sets import is_held

    title = next(t for t in (f"Article {k}" for k in range(99)) if is_held(t))
    paragraph = {
        "context": "Granite forms deep below the ground. It cools slowly.",
        "qas": [{"question": "where does granite form?", "is_impossible": False,
                 "answers": [{"text": "below the ground", "answer_start": 0}]}],
    }  # fmt: skip
    (tmp_path / "qa").mkdir()
    article = {"title": title, "paragraphs": [paragraph]}
    (tmp_path / "qa" / "squad2_half.json").write_text(json.dumps({"data": [article]}))
    assert prepare(tmp_path, tmp_path / "made", 3) == ["where does granite form?"]
    (text,) = (tmp_path / "made" / "documents").glob("*.txt")
    assert "Granite forms" in text.read_text()
    asked = prepare(tmp_path / "nothing", tmp_path / "other", 3)
    assert len(asked) == 3


def test_references_always_take_part(chat_model: str) -> None:
    """Whoever is left out, the two that others are compared with are not."""
    bench = RagBench(model=Path(chat_model), only=("CTranslate2",))
    names = [c.name for c in bench.contestants(Path("x"))]
    assert BASELINE in names
    assert PLAIN in names
    assert "echodraft copy float32" not in names


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    """Before anything is indexed."""
    with pytest.raises(ValueError, match="no model at"):
        RagBench(model=tmp_path / "none")
