"""The survey's table: fair figures, cold and warm state apart, resumable, reasons for who is left out."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from apps.bench.drafters.command import DraftersBench, run
from apps.bench.drafters.entries import Entry, entries, read_options
from apps.bench.drafters.figures import places, row
from apps.bench.drafters.loss import total_variation
from apps.bench.drafters.measure import Place, Racer
from apps.bench.drafters.memory import held_bytes
from apps.bench.drafters.prompts import Prompt, chat_wrap, load_prompts
from apps.bench.drafters.table import draw, show
from apps.bench.drafters.watched import FirstPass
from core import drafters
from core.drafters.base import Drafter
from core.drafters.llma import Llma
from core.loading import load
from core.types import DraftTree, SamplingParams, Sequence
from tests.core.models import target_of, word_tokenizer

TEXTS = ["a b c d", "e f g h a b", "c c d", "h g f", "a a b", "b c d e"]


@pytest.fixture
def bench(model: Path, tmp_path: Path) -> DraftersBench:
    own = tmp_path / "own.jsonl"
    rows = [{"prompt": text, "sources": [text]} for text in TEXTS]
    own.write_text("\n".join(json.dumps(one) for one in rows), encoding="utf-8")
    return DraftersBench(
        str(model), prompts=(str(own),), only=("copy", "adaptive_trigram"), rule_drafters=("copy",), batches=(1, 2),
        items=2, warm=1, rounds=1, max_new_tokens=8, nodes=3, device="cpu", minutes=0,
    )  # fmt: skip


def lines(result: dict[str, Any]) -> list[tuple[tuple[str, float, int], dict[str, Any]]]:
    return [
        (place, row(cell, state))
        for place, cells in places(result)
        for cell in cells
        for state in ("cold", "warm")
    ]


def test_every_drafter_and_rule_is_measured_at_every_place_and_exact_ones_are_identical(
    bench: DraftersBench, tmp_path: Path
) -> None:
    result = run(bench)
    found = lines(result)
    assert {place[1:] for place, _ in found} == {(0.0, 1), (0.0, 2), (1.0, 1), (1.0, 2)}
    assert {place[0] for place, _ in found} == {"own.jsonl"}
    rules = {(line["drafter"], line["rule"]) for _, line in found}
    others = {("copy", rule) for rule in ("exact", "speculative_sampling", "typical", "top_beta")}
    assert rules == others | {("adaptive_trigram", "exact")}
    for place, line in found:
        assert line["rounds"] == 1
        assert line["times"] > 0
        assert line["nodes_per_pass"] <= 3
        assert 0 < line["draft_share"] < 1
        if line["rule"] == "exact" or (line["rule"] == "speculative_sampling" and place[1] == 0):
            assert line["identical"] == 1
        assert (line["loss"] is None) == (line["rule"] == "exact" or place[1] == 0)
    show(result)
    draw(result, tmp_path / "speeds.png")
    assert (tmp_path / "speeds.png").stat().st_size > 1000


def test_a_run_goes_on_from_its_file_and_refuses_that_of_another(
    bench: DraftersBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "kept.json"
    short = replace(bench, only=("copy",), rule_drafters=(), temperatures=(0.0,), rounds=1)
    first = run(short, out)["cells"]
    (once,) = (cell for cell in first.values() if cell["rows"] == 1)
    twice = run(replace(short, rounds=2), out)["cells"]
    (cell,) = (cell for cell in twice.values() if cell["rows"] == 1)
    assert cell["rounds"][0] == once["rounds"][0]
    assert len(cell["rounds"]) == 2

    def never(*_: Any) -> None:
        raise AssertionError("everything was measured already")

    monkeypatch.setattr(Racer, "round", never)
    assert run(replace(short, rounds=2), out)["cells"] == twice
    with pytest.raises(ValueError, match="nodes: 3, not 4"):
        run(replace(short, nodes=4), out)


def test_no_round_begins_when_the_time_is_over(bench: DraftersBench) -> None:
    with pytest.raises(ValueError, match="minutes"):
        run(replace(bench, minutes=1e-9))


def test_a_ratio_is_the_total_of_medians_over_the_total_of_medians() -> None:
    def side(wall: list[float], tokens: int = 0) -> dict[str, Any]:
        return {
            "wall": wall, "cpu": wall, "tokens": tokens, "passes": 2, "nodes": 4, "identical": 1, "outputs": 2,
            "draft_seconds": 1.0, "loop_seconds": 4.0,
        }  # fmt: skip

    rounds = [
        {"plain": side([2.0, 10.0]), "cold": side([1.0, 1.0], 6)},
        {"plain": side([4.0, 90.0]), "cold": side([1.0, 9.0], 6)},
        {"plain": side([3.0, 10.0]), "cold": side([7.0, 1.0], 6)},
    ]
    cell = {"drafter": "x", "rule": "exact", "rounds": rounds, "bytes": 7, "loss": None}
    line = row(cell, "cold")
    assert line["times"] == (3.0 + 10.0) / (1.0 + 1.0)
    assert (line["tokens_per_pass"], line["nodes_per_pass"], line["identical"]) == (3, 2, 0.5)
    assert line["draft_share"] == 0.25


class _Diary(Llma):
    """Notes which prompts each drafter has seen."""

    def __init__(self, kept: list[_Diary]) -> None:
        super().__init__()
        self.seen: list[int] = []
        kept.append(self)

    def begin(self, row: Sequence) -> None:
        self.seen.append(len(row.prompt_ids))
        super().begin(row)


def test_a_cold_drafter_has_seen_nothing_and_a_warm_one_the_earlier_prompts_only() -> None:
    kept: list[_Diary] = []
    entry = Entry("diary", "exact", lambda: _Diary(kept))
    racer = Racer(target_of("llama"), word_tokenizer(), entry, Place("p", 0.0, 2), 4, 2)
    # Told apart by their lengths.
    prompts = [Prompt(" ".join(["w5"] * (5 + i))) for i in range(6)]
    for number in range(2):
        kept.clear()
        sides, _ = racer.round(number, prompts[:4], prompts[4:])
        seen = sorted(sorted(diary.seen) for diary in kept if diary.seen)
        cold = [[5, 6], [7, 8]] + ([[9, 10]] if number == 0 else [])
        warm = [5, 6, 7, 8, 9, 10]
        assert seen == sorted([*cold, warm])
        assert [side.outputs for side in sides.values()] == [4, 4, 4]
        assert sides["plain"].tokens == sides["cold"].tokens == sides["warm"].tokens == 16


def test_who_cannot_be_made_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class NeedsModel(Drafter):
        def __init__(self, model: str) -> None:
            if model == "nowhere":
                raise ValueError("no model folder at 'nowhere'")

    monkeypatch.setitem(drafters.FACTORIES, "needy", lambda target, **options: NeedsModel(**options))
    target = target_of("llama")
    _, (missing,) = entries(target, ["needy", "llma"], {}, [])
    assert (missing.name, "model" in missing.reason) == ("needy", True)
    _, (wrong,) = entries(target, ["needy"], read_options(["needy.model=nowhere"]), [])
    assert wrong.reason == "no model folder at 'nowhere'"
    found, failures = entries(target, ["needy"], read_options(["needy.model=here"]), ["needy"])
    assert not failures
    assert {entry.rule for entry in found} == {"exact", "speculative_sampling", "typical", "top_beta"}
    everyone, _ = entries(target, [], {}, [])
    assert {"copy", "merged", "adaptive_trigram"} <= {entry.drafter for entry in everyone}
    with pytest.raises(ValueError, match="unknown drafter 'nobody'"):
        entries(target, ["nobody"], {}, [])


def test_a_draft_model_is_loaded_once_and_its_drafters_are_made_anew(model: Path) -> None:
    target, _ = load(model, "cpu")
    (entry, *_), failures = entries(target, ["draft_model"], read_options([f"draft_model.model={model}"]), [])
    assert not failures
    first, second = entry.make(), entry.make()
    assert first is not second
    assert first.slots.target is second.slots.target  # type: ignore[attr-defined]
    both = {"spec_infer": {"models": f"{model},{model}"}}
    (several, *_), failures = entries(target, ["spec_infer"], both, [])
    assert not failures
    assert len(several.make().parts) == 2  # type: ignore[attr-defined]
    _, (nowhere,) = entries(target, ["draft_model"], {"draft_model": {"model": "./none"}}, [])
    assert nowhere.reason.startswith("no model folder at './none'")
    _, (bare,) = entries(target, ["draft_model"], {}, [])
    assert bare.reason.endswith("here with --option draft_model.OPTION=VALUE")


def test_options_are_read_by_drafter() -> None:
    read = read_options(["a.model=x/y", "a.size=3", "b.rate=0.5", "b.on=true"])
    assert read == {"a": {"model": "x/y", "size": 3}, "b": {"rate": 0.5, "on": True}}
    with pytest.raises(ValueError, match=r"DRAFTER\.OPTION=VALUE"):
        read_options(["model=x"])


def test_a_rule_that_always_accepts_is_as_far_from_the_target_as_what_it_never_says() -> None:
    logits = torch.tensor([[0.6, 0.3, 0.1, 1e-9]]).log().expand(2, -1)
    passes = [FirstPass(logits, DraftTree([0], [-1]), SamplingParams(temperature=1.0))] * 3
    lossy = total_variation("top_beta", passes, 64)
    assert lossy is not None
    assert lossy["tv"] == pytest.approx(0.4, abs=1e-6)
    for lossless in ("exact", "speculative_sampling"):
        kept = total_variation(lossless, passes, 400)
        assert kept is not None
        assert kept["tv"] < 0.08
        assert kept["floor"] < 0.08
    assert total_variation("typical", [], 4) is None


def test_memory_counts_every_array_once_and_nothing_of_the_target() -> None:
    big, shared = np.zeros(10_000), torch.zeros(5_000)
    held = {"big": big, "view": big[10:], "tensors": [shared, shared[5:]]}
    size = held_bytes(held)
    assert 100_000 <= size < 102_000
    assert held_bytes(held, [shared]) < size - 19_000
    assert held_bytes({"view": big[10:]}) >= 80_000


def test_prompts_are_read_in_the_form_that_the_model_wants(tmp_path: Path) -> None:
    (tmp_path / "qa").mkdir()
    (tmp_path / "text").mkdir()
    (tmp_path / "qa/llma_rag.jsonl").write_text(
        json.dumps({"query": "who?", "docs": ["a b", "c"]}), encoding="utf-8"
    )
    turns = ["Hi.", "What?", "That.", "Sure?", "Yes.", "Done.", "Have a nice day!", "Bye", "Goodbye."]
    with gzip.open(tmp_path / "text/sgd_dialogues.txt.gz", "wt", encoding="utf-8") as out:
        out.write("\n".join(turns))
    plain = chat_wrap(word_tokenizer())
    (asked,) = load_prompts("rag", tmp_path, 3, plain)
    assert asked.text == "User: docs:\na b\nc\nquery: who?\nanswer:\nAssistant:"
    assert asked.sources == ("a b", "c")
    (talk,) = load_prompts("chat", tmp_path, 3, plain)
    assert talk.text == "User: Hi.\nAssistant: What?\nUser: That.\nAssistant: Sure?\nUser: Yes.\nAssistant:"
    with pytest.raises(FileNotFoundError, match="--data"):
        load_prompts("rag", tmp_path / "absent", 3, plain)
    with pytest.raises(ValueError, match="no prompts 'other'"):
        load_prompts("other", tmp_path, 3, plain)
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="line 1: every row needs a text `prompt`"):
        load_prompts(str(tmp_path / "bad.jsonl"), tmp_path, 3, plain)


@pytest.mark.parametrize(
    "wrong", [{"items": 0}, {"nodes": -1}, {"temperatures": (-1.0,)}, {"batches": (0,)}, {"minutes": -1.0}]
)
def test_settings_that_cannot_be_measured_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        DraftersBench(**wrong)
