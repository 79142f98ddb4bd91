"""The command's figures: ratios, agreement, and tables made from the result alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apps.bench.__main__ import app
from apps.bench.contestants import BASELINE, CONTESTANTS
from apps.bench.figures import phases_ms
from apps.bench.figures import row as figures_row
from apps.bench.gec import GecBench, _texts, run
from apps.bench.gec_table import readme_table, show
from apps.bench.report import hardware, publish
from apps.bench.timing import Output, Run, Timing

REFERENCE = [Output((1, 2), "a", 3), Output((3,), "b", 2)]


def row(name: str, seconds: float, *rounds: list[Output]) -> dict[str, Any]:
    timing = Timing(name, "1 thread", [Run(seconds, outputs) for outputs in rounds])
    return figures_row(timing, REFERENCE, {"transformers": 40.0, "ctranslate2": 5.0})


def result() -> dict[str, Any]:
    mode = {
        "rows": 1,
        "passes_of_perfect_copying": 1.5,
        "entries": [
            row(BASELINE, 0.08, REFERENCE),
            row("echodraft copy float32", 0.008, *[REFERENCE[:1] * 2] * 2),
        ],
        "failures": [{"name": "prompt lookup", "reason": "ValueError: no batches"}],
        "phases_ms": {"echodraft copy float32": {"propose": 0.5, "forward": 3.0}},
    }
    return {
        "bench": "gec",
        "hardware": hardware(),
        "model": "gec-small",
        "settings": {"limit": 2, "rounds": 1, "rows": 32, "max_new_tokens": 128},
        "sets": {"jfleg": {"sentences": 2, "single": mode, "batch": mode | {"rows": 32}}},
        "failures": [],
    }


def test_ratios_are_the_rivals_time_over_ours() -> None:
    entry = row("ours", 0.008, REFERENCE[:1] * 2)
    assert entry["ms"] == pytest.approx(4.0)
    assert entry["times_transformers"] == pytest.approx(10.0)
    assert entry["times_ctranslate2"] == pytest.approx(1.25)
    assert (entry["identical"], entry["passes"]) == (0.5, 3.0)


def test_agreement_and_passes_are_means_over_all_rounds() -> None:
    entry = row("ours", 0.008, REFERENCE, REFERENCE[:1] * 2)
    assert (entry["identical"], entry["passes"]) == (0.75, 2.75)


def test_phases_are_those_of_the_median_round_and_of_our_entries_only() -> None:
    ours = Timing("ours", "1 thread", [Run(s, REFERENCE, {"forward": s / 2}) for s in (0.5, 0.1, 0.2)])
    assert phases_ms([ours, Timing("peer", "1 thread", [Run(0.1, REFERENCE)])]) == {
        "ours": {"forward": pytest.approx(50.0)}
    }


def test_the_readme_table_is_made_from_the_result_file(tmp_path: Path) -> None:
    kept = tmp_path / "gec.json"
    kept.write_text(json.dumps(result()))
    printed = CliRunner().invoke(app, ["table", str(kept)])
    assert printed.exit_code == 0
    assert "| echodraft copy float32 | 4.00 (10.0x) | 4.00 (10.0x) | 50.0 % |" in printed.stdout
    assert f"median of 2 rounds (1 for {BASELINE})" in printed.stdout
    assert printed.stdout.strip() == readme_table(result())


def test_tables_go_to_standard_error_and_the_json_line_is_last(capsys: pytest.CaptureFixture[str]) -> None:
    show(result())
    publish(result(), None)
    captured = capsys.readouterr()
    assert json.loads(captured.out.splitlines()[-1])["bench"] == "gec"
    assert len(captured.out.splitlines()) == 1
    assert "prompt lookup could not run: ValueError: no batches" in captured.err
    assert "passes per sentence of perfect copying: 1.50" in captured.err


def test_only_keeps_the_named_contestants_and_the_baseline() -> None:
    bench = GecBench(only=("int8",))
    assert bench.wants("CTranslate2 int8")
    assert bench.wants(BASELINE)
    assert not bench.wants("echodraft none float32")


def test_a_measurement_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="rounds=0 must be at least 1"):
        GecBench(rounds=0)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["table", "absent.json"], "absent.json"),
        (["table", "pyproject.toml"], "pyproject.toml is no result of `bench gec`"),
        (["gec", "--only", "copy,nobody"], "'nobody' names no contestant; there are transformers"),
        (["gec", "--model", "absent"], "there is no model at absent"),
        (["gec", "--threads", "two"], "--threads two: 'two' is no number"),
        (["rag", "--only", "nobody"], "'nobody' names no contestant"),
        (["replay", "--count-only", "--limits", "x"], "--limits x: 'x' is no number"),
        (["ralm", "--passages", "absent", "--ratios", "3,x"], "--ratios 3,x: 'x' is no number"),
    ],
)
def test_a_mistake_in_a_benchmarks_options_is_a_line(command: list[str], words: str) -> None:
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.output
    assert done.stderr.startswith("error: ")
    assert words in done.stderr


def test_thread_counts_choose_among_the_settings_but_ctranslate2_keeps_its_best() -> None:
    bench = GecBench(threads=(1,))
    for contestant in CONTESTANTS:
        settings = bench.settings_of(contestant)
        if contestant.kind == "ctranslate2":
            assert settings == list(contestant.settings)
        else:
            assert {setting.threads for setting in settings} == {1}
    with pytest.raises(ValueError, match=r"threads=\(7,\) match no setting; there are \[1, 2\]"):
        GecBench(threads=(7,))


def test_without_the_evaluation_sets_the_samples_are_used(tmp_path: Path) -> None:
    texts = _texts(GecBench(data=tmp_path / "absent", limit=2))
    assert list(texts) == ["samples"]
    assert len(texts["samples"]) == 2


def test_two_runtimes_in_processes_of_their_own_write_the_same_tokens(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = run(
        GecBench(model, tmp_path / "absent", 2, 3, 2, 6, threads=(1,), only=("none float32",), minutes=0.01)
    )
    assert "2 of 2 sentences, 3 rounds" in capsys.readouterr().err
    for mode in ("single", "batch"):
        figures = measured["sets"]["samples"][mode]
        assert [entry["name"] for entry in figures["entries"]] == [BASELINE, "echodraft none float32"]
        assert [entry["identical"] for entry in figures["entries"]] == [1.0, 1.0]
        assert [len(entry["rounds_ms"]) for entry in figures["entries"]] == [3, 3]
        assert figures["phases_ms"]["echodraft none float32"]["forward"] > 0
        assert not figures["failures"]
    assert "echodraft none float32" in readme_table(json.loads(json.dumps(measured)))


def test_a_model_that_the_baseline_cannot_load_is_an_error_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot run: .*Error"):
        run(GecBench(tmp_path, tmp_path / "absent", 1, 1, threads=(1,), only=("copy float32",)))
