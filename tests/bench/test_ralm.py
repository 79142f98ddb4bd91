"""The benchmark of retrieval while writing compares texts that are the same."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
from langchain_core.embeddings import DeterministicFakeEmbedding

from apps.bench.ralm import command
from apps.bench.ralm.command import main, run
from apps.bench.ralm.contest import Tally, figures, measure
from apps.bench.ralm.setting import RalmBench, prompts_of, read_passages

needs_tokenizer = pytest.mark.skipif(
    not Path("data/models/gec-small").is_dir(), reason="the shipped tokenizer is not here"
)


class _Embeddings(DeterministicFakeEmbedding):
    """With a cache to replace, as those that the benchmark measures have one."""

    cache: object = None


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    path = tmp_path / "passages.jsonl"
    rows = [f"number {i} stands between {i - 1} and {i + 1}, and a river runs by" for i in range(30)]
    path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    return path


def tiny(passages: Path, *parts: str, **options: Any) -> RalmBench:
    sizes = {"prompts": 1, "max_tokens": 12, "minutes": 0.001, **options}
    return RalmBench((passages,), "random", parts=parts, **sizes)


@needs_tokenizer
def test_a_price_is_measured_with_all_texts_the_same(passages: Path) -> None:
    part = run(tiny(passages, "latency", ratios=(2.0,)))["parts"]["latency"]
    (found,) = part["cells"]
    assert found["identical"] == found["identical_to_rereading"] == 1.0
    assert (found["ratio"], found["prompts"], found["sequential_calls"]) == (2.0, 1, 3)
    assert found["predicted"] > 0
    assert json.dumps(part)


@needs_tokenizer
def test_real_retrievers_are_measured(passages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.bench.ralm import indexes

    monkeypatch.setattr(indexes, "default_embeddings", lambda: (_Embeddings(size=8), ""))
    bench = tiny(passages, "real", vectors=60, embedded=20, graph=30, max_tokens=8)
    cells = run(bench)["parts"]["real"]["cells"]
    assert [cell["retriever"] for cell in cells] == ["flat", "hnsw", "bm25", "bm25 + 50 ms"]
    assert all(cell["identical"] == cell["identical_to_rereading"] == 1.0 for cell in cells)
    assert "60 x 8, 20 of them passages" in cells[0]["about"]


@needs_tokenizer
def test_knn_is_measured_and_synthetic_contexts_are_named(passages: Path) -> None:
    found = run(tiny(passages, "knn", entries=2000, neighbours=(1, 8)))["parts"]["knn"]
    assert [(cell["k"], cell["identical"]) for cell in found["cells"]] == [(1, 1.0), (8, 1.0)]
    assert found["read"] + found["synthetic"] == found["entries"] == 2000
    assert 100 < found["read"] < 2000


@needs_tokenizer
def test_a_later_run_adds_its_part_and_draws(
    passages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, picture = tmp_path / "out.json", tmp_path / "folder" / "out.png"
    monkeypatch.setattr(command, "RalmBench", partial(RalmBench, grid_ratios=(1.0, 0.25), hit_rates=(0.9,)))
    out.write_text(json.dumps({"parts": {"knn": {"cells": []}}}))
    main(
        [passages], "random", RalmBench.tokenizer, "grid", minutes=0.001, prompts=1, max_tokens=4, out=out,
        picture=picture,
    )  # fmt: skip
    parts = json.loads(out.read_text())["parts"]
    assert set(parts) == {"knn", "grid"}
    assert {cell["identical"] for cell in parts["grid"]["cells"]} == {1.0}
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 100_000


class Slow:
    """Writes its name, and a little time passes."""

    def __init__(self, names: list[str], name: str) -> None:
        self._names, self._name = names, name

    def generate(self, prompts: Any, params: Any = None) -> Any:
        from types import SimpleNamespace

        from apps.ralm.stats import RetrievalStats

        self._names.append(self._name)
        return [SimpleNamespace(token_ids=[1], stats=RetrievalStats())]


def test_contestants_take_turns_and_stop_at_the_deadline() -> None:
    names: list[str] = []
    models = {name: Slow(names, name) for name in "abc"}
    measure(models, ["p"] * 3, 4, deadline=float("inf"), once="a")
    assert "".join(names) == "abcbcbc"
    names.clear()
    measure(models, ["p"] * 3, 4, deadline=0.0)
    assert "".join(names) == "abc"


def test_figures_are_over_the_prompts_that_both_wrote() -> None:
    plain = Tally(seconds=[6.0], texts=[[1]])
    ours = Tally(seconds=[2.0, 9.0], texts=[[1], [2]], strides=[3, 5])
    found = figures(plain, ours)
    assert (found["prompts"], found["speedup"], found["identical"], found["mean_stride"]) == (
        1,
        3.0,
        1.0,
        4.0,
    )
    assert figures(Tally(seconds=[1.0], texts=[[2]]), ours)["identical"] == 0.0


def test_what_cannot_be_measured_is_refused(passages: Path, tmp_path: Path) -> None:
    for wrong, words in (
        ({"prompts": 0}, "prompts=0"),
        ({"minutes": 0.0}, "minutes"),
        ({"ratios": (-1.0,)}, "ratios"),
    ):
        with pytest.raises(ValueError, match=words):
            RalmBench((passages,), **wrong)
    with pytest.raises(ValueError, match="part 'x'"):
        RalmBench((passages,), parts=("x",))
    with pytest.raises(FileNotFoundError, match="give JSONL files"):
        read_passages([tmp_path / "none.jsonl"])
    with pytest.raises(typer.Exit):
        main([tmp_path / "none.jsonl"])


def test_a_picture_of_what_is_not_measured_is_refused_before_anything_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit):
        main([tmp_path / "none.jsonl"], parts="latency", picture=tmp_path / "out.png")
    assert "the part grid" in " ".join(capsys.readouterr().err.split())


def test_prompts_are_spread_over_the_passages() -> None:
    assert prompts_of([f"passage {i}" for i in range(10)], 3) == ["passage 0", "passage 3", "passage 6"]
