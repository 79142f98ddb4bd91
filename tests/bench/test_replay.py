"""Forced replay counts what the drafters would have done, with passes or without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apps.bench.recordings import Item, load_items
from apps.bench.replay import PassRunner, ReplayBench, count
from core.drafters.base import Drafter
from core.drafters.copy import Copy
from core.drafters.llma import Llma

PASSAGE = list(range(10, 40))
ITEMS = [Item([5, 6, *PASSAGE, 7], [PASSAGE], [5, *PASSAGE[8:28], 7, *PASSAGE[:6]]) for _ in range(2)]


def test_plain_decoding_takes_a_pass_for_every_token() -> None:
    tally = count(Drafter(), ITEMS, 16)
    assert tally.passes == tally.tokens == 2 * len(ITEMS[0].output)
    assert tally.nodes == 0
    assert tally.figures()["tokens_per_pass"] == 1


def test_a_wider_tree_never_writes_more_than_was_recorded() -> None:
    for limit in (1, 4, 64):
        tally = count(Copy(is_aligned=False), ITEMS, limit)
        assert tally.tokens == 2 * len(ITEMS[0].output)
        assert tally.nodes <= limit * tally.passes
        assert tally.passes < tally.tokens


@pytest.mark.parametrize("make", [lambda: Copy(is_aligned=False), Llma], ids=["copy", "llma"])
def test_passes_that_are_run_are_the_passes_that_are_counted(make: type[Drafter]) -> None:
    ran, counted = PassRunner(None, 50)(make(), ITEMS, 8), count(make(), ITEMS, 8)
    assert (ran.tokens, ran.passes, ran.nodes) == (counted.tokens, counted.passes, counted.nodes)
    assert ran.pass_seconds > 0


def test_recordings_are_read_with_their_passages_in_the_prompt(tmp_path: Path) -> None:
    rows = [
        {"query": "who?", "docs": ["a b", "c"], "result": {"text": " me"}},
        {"query": "sum up: a b c", "docs": ["a b c"], "result": {"text": "12####short"}},
    ]
    path = tmp_path / "recorded.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    answer, summary = load_items(path, lambda text: list(text.encode()), 5)
    assert bytes(answer.prompt).decode() == "docs:\na b\nc\nquery: who?\nanswer:"
    assert [bytes(source).decode() for source in answer.sources] == ["a b", "c"]
    assert bytes(summary.prompt).decode() == "sum up: a b c"
    assert bytes(summary.output).decode() == "short"
    with pytest.raises(FileNotFoundError, match="--data"):
        load_items(tmp_path / "absent.jsonl", lambda text: [], 5)


def test_settings_that_cannot_be_measured_are_refused() -> None:
    with pytest.raises(ValueError, match="items=0"):
        ReplayBench(items=0)
    with pytest.raises(ValueError, match="limits"):
        ReplayBench(limits=())
