"""`python -m apps.bench gpu`, every part of it, tiny and on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from apps.bench.__main__ import app
from apps.bench.gpu.clock import Deadline
from apps.bench.gpu.models import SHAPES, TINY, SilentTokenizer, big_model
from apps.bench.gpu.passes import WrongChain
from apps.bench.gpu.replay import ReplayTarget, make_text
from core import Engine, Request, SamplingParams, drafters
from core.budget import FixedBudget

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("gpu")
    done = CliRunner().invoke(app, ["gpu", "--out", str(out), "--device", "cpu", "--quick"])
    assert done.exit_code == 0, done.output
    whole = json.loads((out / "gpu.json").read_text())
    last = json.loads(done.stdout.splitlines()[-1])
    assert last == {key: whole[key] for key in last}
    page = (out / "gpu.md").read_text()
    for title in (
        "## Identity",
        "## A bare pass",
        "## A step of the engine",
        "## Forced replay at llama-tiny",
    ):
        assert title in page
    return dict(whole)


def test_every_part_leaves_a_result_and_none_is_left_out(result: dict[str, Any]) -> None:
    assert result["skipped"] == []
    assert [cell["rows"] for cell in result["passes"]["llama-tiny"]] == [1, 3]
    assert all(cell["eager_ms"] > 0 and cell["graph_ms"] > 0 for cell in result["passes"]["llama-tiny"])
    assert [cell["nodes"] for cell in result["loop"]["llama-tiny"]] == [0, 7]
    assert {(cell["rows"], cell["drafter"]) for cell in result["replay"]["cells"]} == {
        (rows, drafter) for rows in (1, 3) for drafter in ("none", "copy", "copy, primed", "prompt_lookup")
    }


def test_outputs_are_identical_in_float32_and_every_drafter_took_part(result: dict[str, Any]) -> None:
    rate = result["identity"]["rates"]["float32 graphs"]
    assert rate["errors"] == 0
    assert rate["identical"] == rate["rows"] == 2 * len(drafters.ready_names()) * 2 * (1 + 5)


def test_replayed_outputs_are_the_recorded_ones_in_fewer_passes(result: dict[str, Any]) -> None:
    for cell in result["replay"]["cells"]:
        assert cell["identical"] == 1
        assert cell["tokens_per_pass"] >= 1
        if cell["drafter"] == "none":
            assert cell["tokens_per_pass"] == cell["ratio"] == 1
    assert max(cell["tokens_per_pass"] for cell in result["replay"]["cells"]) > 1.5


def test_rows_that_leave_at_different_times_keep_their_own_recordings() -> None:
    target = ReplayTarget(big_model(TINY, torch.float32, CPU))
    texts = [make_text(TINY.vocab_size, 40, 30, seed) for seed in range(5)]
    target.record(texts, 5)
    engine = Engine(target, SilentTokenizer(), "copy", max_rows=5, budget=FixedBudget(6))
    requests = [
        Request(t.prompt, params=SamplingParams(max_new_tokens=30 - 5 * i)) for i, t in enumerate(texts)
    ]
    for i, done in enumerate(engine.generate(requests)):
        assert done.token_ids == texts[i].output[: 30 - 5 * i]


def test_half_to_four_fifths_of_a_replayed_output_is_copied() -> None:
    for seed in range(20):
        text = make_text(32_000, 512, 128, seed)
        copied = len(set(text.output) & set(text.prompt)) / len(text.output)
        assert len(text.output) == 128
        assert 0.45 < copied < 0.85


def test_a_chain_that_is_always_wrong_is_never_accepted() -> None:
    target = ReplayTarget(big_model(TINY, torch.float32, CPU))
    engine = Engine(target, SilentTokenizer(), WrongChain(4, wrong_token=7), budget=FixedBudget(4))
    text = make_text(TINY.vocab_size, 20, 10, seed=0)
    target.record([text], 1)
    (done,) = engine.generate([Request(text.prompt, params=SamplingParams(max_new_tokens=10))])
    assert done.stats.accepted == 0
    assert done.stats.drafted > 0
    assert done.token_ids == text.output


def test_what_the_time_does_not_allow_is_named(tmp_path: Path) -> None:
    command = ["gpu", "--out", str(tmp_path), "--device", "cpu", "--quick", "--minutes", "0"]
    assert CliRunner().invoke(app, command).exit_code == 0
    skipped = json.loads((tmp_path / "gpu.json").read_text())["skipped"]
    assert "passes of llama-tiny (no time)" in skipped
    assert any(name.startswith("identity of") for name in skipped)
    assert "## Left out" in (tmp_path / "gpu.md").read_text()


def test_a_part_of_a_deadline_never_outlasts_the_whole() -> None:
    assert Deadline(5).part(60).left <= 5
    assert Deadline(-1).part(60).is_over


def test_the_large_shapes_are_what_their_names_say() -> None:
    billions = {shape.name: shape.num_parameters / 1e9 for shape in SHAPES}
    assert 6.5 < billions["llama-7b"] < 7
    assert 0.8 < billions["llama-1b"] < 1.3
    assert 0.1 < billions["llama-160m"] < 0.2


def test_a_full_run_without_a_gpu_is_refused_with_the_remedy(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["gpu", "--out", str(tmp_path), "--device", "cpu"])
    assert done.exit_code == 2
    assert "--quick" in done.output


def test_the_command_imports_only_what_a_bare_gpu_machine_has() -> None:
    """torch, transformers, numpy, safetensors, typer, rich and what these bring: nothing else."""
    script = "import sys, apps.bench.__main__, apps.bench.gpu.command; print(*sys.modules)"
    root = Path(__file__).parents[2]
    listed = subprocess.run(
        [sys.executable, "-c", script], cwd=root, check=True, timeout=120, capture_output=True, text=True
    ).stdout
    imported = {name.split(".")[0] for name in listed.split()}
    assert {"apps", "core", "torch", "transformers"} <= imported
    extras = {
        "faiss",
        "langchain_core",
        "ctranslate2",
        "rapidfuzz",
        "sentencex",
        "pyarrow",
        "matplotlib",
        "retrieval",
    }
    assert not imported & extras
