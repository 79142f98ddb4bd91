"""On a small random BART every runtime of the race writes the same tokens, whatever the batch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from apps.bench.contestants import CONTESTANTS
from apps.bench.peers import TransformersPeer, ctranslate2_copy, in_chunks
from apps.bench.pooled import PooledRunner
from apps.bench.timing import Output
from apps.bench.worker import LOADERS, Job, Load

TEXTS = ["a b c", "b", "c a b a c b a", "a a"]
MAX_NEW_TOKENS = 12


@pytest.fixture(scope="module")
def greedy(model: Path) -> list[Output]:
    return TransformersPeer(model, torch.float32, MAX_NEW_TOKENS)(TEXTS, rows=1)


def test_transformers_batches_keep_the_order_and_the_tokens(model: Path, greedy: list[Output]) -> None:
    batched = TransformersPeer(model, torch.float32, MAX_NEW_TOKENS)(TEXTS, rows=3)
    assert [out.token_ids for out in batched] == [out.token_ids for out in greedy]


def test_prompt_lookup_writes_the_same_tokens_and_does_not_do_batches(
    model: Path, greedy: list[Output]
) -> None:
    peer = TransformersPeer(model, torch.float32, MAX_NEW_TOKENS, prompt_lookup_tokens=3)
    assert [out.token_ids for out in peer(TEXTS, rows=1)] == [out.token_ids for out in greedy]
    with pytest.raises(ValueError, match="batch_size = 1"):
        peer(TEXTS, rows=2)


def test_every_contestant_and_setting_writes_the_same_tokens(model: Path, greedy: list[Output]) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `bench` is not installed")
    expected = [out.token_ids for out in greedy]
    with ctranslate2_copy(model) as converted:
        job = Job(str(model), MAX_NEW_TOKENS, max_rows=3, converted=str(converted))
        for contestant in CONTESTANTS:
            if contestant.options.get("dtype", contestant.options.get("compute_type")) != "float32":
                continue  # other number types may break near-ties differently
            for setting in contestant.settings:
                options = {**contestant.options, **setting.options}
                runner = LOADERS[contestant.kind](Load(contestant.kind, job, threads=1, options=options))
                if "single" in setting.modes:
                    assert [out.token_ids for out in runner(TEXTS, 1)] == expected, contestant.name
                if "prompt_lookup_tokens" not in options:
                    assert [out.token_ids for out in runner(TEXTS, 3)] == expected, contestant.name
                if isinstance(runner, PooledRunner):
                    with pytest.raises(ValueError, match="not single sentences"):
                        runner(TEXTS, 1)
                    runner.close()
    assert not converted.exists()


def test_a_missing_extra_names_itself(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ImportError, match=r"echodraft\[bench\]"), ctranslate2_copy(model):
        pass


def test_batches_are_sorted_by_length_and_put_back_in_order() -> None:
    seen: list[list[str]] = []

    def correct(texts: list[str]) -> list[Output]:
        seen.append(texts)
        return [Output((), text.upper()) for text in texts]

    assert [out.text for out in in_chunks(["ccc", "a", "bb"], 2, correct)] == ["CCC", "A", "BB"]
    assert seen == [["a", "bb"], ["ccc"]]
