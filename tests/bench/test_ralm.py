"""The benchmark of retrieval while writing compares texts that are the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from apps.bench.ralm import RalmBench, main, read_passages, run

TOKENIZER = Path("data/models/gec-small")


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    path = tmp_path / "passages.jsonl"
    rows = [f"number {i} stands between {i - 1} and {i + 1}, and a river runs by" for i in range(30)]
    path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    return path


@pytest.mark.skipif(not TOKENIZER.is_dir(), reason="the shipped tokenizer is not here")
def test_a_price_is_measured_with_all_texts_the_same(passages: Path) -> None:
    bench = RalmBench(passages, "random", ratios=(2.0,), prompts=1, max_tokens=12)
    result = run(bench)
    (found,) = result["cells"]
    assert found["identical"] == found["identical_to_rereading"] == 1.0
    assert found["ratio"] == pytest.approx(2.0)
    assert found["sequential_calls"] == 3
    assert json.dumps(result)


def test_what_cannot_be_measured_is_refused(passages: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="prompts=0"):
        RalmBench(passages, prompts=0)
    with pytest.raises(ValueError, match="retriever 'x'"):
        RalmBench(passages, retriever="x")
    with pytest.raises(FileNotFoundError, match="give a JSONL file"):
        read_passages(tmp_path / "none.jsonl")
    with pytest.raises(typer.Exit):
        main(tmp_path / "none.jsonl")
