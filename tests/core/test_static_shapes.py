"""What a CUDA graph replays, run on the CPU: the same buffers, padding and buckets, the call made again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from core import Engine, drafters
from core.budget import FixedBudget
from core.drafters.base import Drafter
from core.packing import PackedRow
from core.targets.base import Target
from core.targets.decoder_only import DecoderOnly
from core.targets.encoder_decoder import EncoderDecoder
from core.targets.limits import capture_obstacle
from core.targets.runners import EagerRunner, PassOutput, Replay, StaticRunner, call_again
from core.types import DraftTree
from tests.core.models import FAMILIES, build, repetitive, word_tokenizer
from tests.core.scripted import Scripted
from tests.core.test_identity import SAMPLING, alone, outcome, plain_outcome, requests, run_late
from tests.drafters.draft_models import options_for


def target(family: str, dtype: torch.dtype = torch.float64) -> Target:
    """The family's general adapter (never a lean one), replaying static shapes."""
    model = build(family, dtype)
    made = EncoderDecoder(model) if model.config.is_encoder_decoder else DecoderOnly(model)
    made.use_static_shapes(call_again)
    return made


def engine(made: Target, drafter: str | Drafter, num_nodes: int = 9) -> Engine:
    options = options_for(drafter, made) if isinstance(drafter, str) else None
    budget = FixedBudget(num_nodes)
    return Engine(made, word_tokenizer(), drafter, drafter_options=options, max_rows=5, budget=budget)


def runner(made: Target) -> StaticRunner:
    assert isinstance(made.runner, StaticRunner)
    return made.runner


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("family", FAMILIES)
def test_static_shapes_write_the_tokens_of_plain_eager_decoding(family: str, sampling: str) -> None:
    asked = requests(SAMPLING[sampling], 5)
    plain = alone(family, asked)
    truth = {tuple(r.prompt): c.token_ids for r, c in zip(asked, plain, strict=True)}
    truth |= {tuple(repetitive(7 + i, seed=50 + i)): [] for i in range(5)}
    static = engine(target(family), Scripted(truth))
    static.target.bound(5, 256, num_parked=4)
    assert outcome(static.generate(asked)) == outcome(plain)
    assert outcome(run_late(static, asked, random.Random(1))) == outcome(plain)
    assert outcome(static.generate(asked[:1])) == outcome(plain[:1])
    shapes = runner(static.target).shapes
    assert {shape.num_rows for shape in shapes} == {1, 2, 4, 8}
    assert {shape.num_queries for shape in shapes} <= {1, 2, 4, 8, 16}
    assert {shape.key_length for shape in shapes} == {256}


@pytest.mark.parametrize("drafter", drafters.names())
@pytest.mark.parametrize("family", ["llama", "t5"])
def test_every_drafter_runs_through_static_shapes(family: str, drafter: str) -> None:
    asked = requests(SAMPLING["sampled"], 5)
    assert outcome(engine(target(family), drafter).generate(asked)) == plain_outcome(family, "sampled")


@pytest.mark.parametrize("family", ["llama", "bart"])
def test_the_near_tie_guard_looks_again_through_static_shapes(family: str) -> None:
    asked = requests(SAMPLING["greedy"], 5)
    guarded = Engine(
        target(family),
        word_tokenizer(),
        "copy",
        max_rows=5,
        budget=FixedBudget(9),
        exact=True,
        near_tie_gap=0.5,
    )
    assert outcome(guarded.generate(asked)) == outcome(alone(family, asked))
    assert guarded.generate(asked)[0].stats.near_ties > 0


def test_a_shape_is_captured_once_and_replayed_from_then_on() -> None:
    calls = {"captured": 0, "replayed": 0}

    def counting(call: Replay) -> Replay:
        calls["captured"] += 1
        replay = call_again(call)

        def counted() -> PassOutput:
            calls["replayed"] += 1
            return replay()

        return counted

    made = target("llama")
    made.use_static_shapes(counting)
    made.bound(8, 256, num_parked=4)
    asked = requests(SAMPLING["greedy"], 5)
    plain = engine(made, "none")
    plain.generate(asked)
    assert calls["captured"] == len(runner(made).shapes) == 4  # 5 rows leave one by one: 8, 4, 2, 1
    assert calls["replayed"] == plain.stats.target_calls
    plain.generate(asked)
    assert calls["captured"] == 4


def test_a_cache_that_grows_voids_what_was_captured() -> None:
    made = target("llama")
    made.bound(1, 256)
    single = engine(made, "none")
    asked = requests(SAMPLING["greedy"], 5)
    expected = outcome(alone("llama", asked))
    assert outcome(single.generate(asked[:1])) == expected[:1]
    before = runner(made).shapes
    assert [shape.num_rows for shape in before] == [1]
    assert outcome(single.generate(asked)) == expected
    assert made.cache.num_slots > 5  # five running rows, and the parked one
    assert outcome(single.generate(asked[:1])) == expected[:1]


def test_a_bounded_cache_never_moves() -> None:
    made = target("bart")
    made.bound(5, 256)
    addresses = [cache.data.data_ptr() for cache in made.caches]
    assert [cache.num_slots for cache in made.caches] == [8, 8]
    engine(made, "copy").generate(requests(SAMPLING["greedy"], 5))
    assert [cache.data.data_ptr() for cache in made.caches] == addresses


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "bart", "t5"])
def test_logits_of_ragged_rows_equal_the_eager_ones_and_padding_touches_no_active_row(family: str) -> None:
    static, eager = target(family), target(family)
    eager.runner = EagerRunner(eager.device)
    rows = [PackedRow(3, [5], DraftTree([6, 7, 8], [-1, 0, -1])), PackedRow(0, [9]), PackedRow(5, [4, 5])]
    outputs = []
    for made in (static, eager):
        made.join(0, [repetitive(9, seed=i) for i in range(3)])
        outputs.append(made.forward(made.pack(rows), need_hidden=True))
    mine, expected = outputs
    assert mine.hidden is not None
    assert expected.hidden is not None
    for b, row in enumerate(rows):
        n, end = row.num_queries, row.length + row.num_queries
        torch.testing.assert_close(mine.row_logits(b, n), expected.row_logits(b, n))
        torch.testing.assert_close(mine.row_hidden(b, n), expected.row_hidden(b, n))
        torch.testing.assert_close(static.cache.data[:, :, b, :, :end], eager.cache.data[:, :, b, :, :end])


def test_an_output_stays_what_it_was_when_its_shape_is_replayed() -> None:
    made = target("llama")
    made.join(0, [repetitive(4, seed=0)])
    first = made.forward(made.pack([PackedRow(3, [5])]))
    kept = first.logits.clone()
    second = made.forward(made.pack([PackedRow(3, [6])]))
    assert first.is_cold
    assert not second.is_cold
    torch.testing.assert_close(first.logits, kept)
    assert not torch.equal(first.logits, second.logits)


def test_a_model_that_cannot_be_captured_runs_eagerly(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(call: Replay) -> Replay:
        raise RuntimeError("operation not permitted when stream is capturing")

    made = target("llama")
    made.use_static_shapes(refuse)
    asked = requests(SAMPLING["greedy"], 5)
    assert outcome(engine(made, "copy").generate(asked)) == outcome(alone("llama", asked))
    assert runner(made).obstacle == "operation not permitted when stream is capturing"
    assert caplog.text.count("without CUDA graphs") == 1


def test_wide_passes_and_passes_from_another_slot_are_not_captured() -> None:
    made = target("llama")
    runner(made).max_queries = 4
    made.join(0, [repetitive(4, seed=0), repetitive(4, seed=1)])
    made.forward(made.pack([PackedRow(3, [5]), PackedRow(3, [5, 6, 7])]))
    made.forward(made.pack([PackedRow(3, [5])], first_slot=1))
    assert runner(made).shapes == []
    made.forward(made.pack([PackedRow(3, [5]), PackedRow(3, [5, 6])]))
    assert len(runner(made).shapes) == 1


def bucket_of(made: StaticRunner, name: str) -> Callable[[int], int]:
    found: Callable[[int], int] = getattr(made, name)
    return found


@pytest.mark.parametrize("name", ["query_bucket", "key_bucket", "source_bucket"])
def test_buckets_hold_what_they_are_for_and_are_few(name: str) -> None:
    bucket = bucket_of(runner(target("llama")), name)
    sizes = [bucket(n) for n in range(1, 2049)]
    assert all(size >= n for n, size in enumerate(sizes, 1))
    assert sizes == sorted(sizes)
    assert all(bucket(size) == size for size in sizes)
    assert len({size for size in sizes if size <= 128 or name != "query_bucket"}) <= 13


def test_models_that_look_at_numbers_on_the_host_are_known() -> None:
    assert capture_obstacle(build("llama").config) is None
    dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    model = build("llama", rope_parameters=dynamic)
    assert "dynamic" in str(capture_obstacle(model.config))
    looking = DecoderOnly(model)
    looking.use_static_shapes(strictly)
    engine(looking, "copy").generate(requests(SAMPLING["greedy"], 1))
    assert "cannot be recorded" in str(runner(looking).obstacle)


class NoLooksAtNumbers(TorchDispatchMode):
    """Refuses what a recording on a GPU refuses: results whose shape or value the host must wait for."""

    REFUSED = frozenset(
        {
            "item", "_local_scalar_dense", "is_nonzero", "nonzero", "nonzero_numpy", "argwhere", "masked_select",
            "unique", "_unique2", "unique_consecutive", "equal", "allclose", "bincount",
        }
    )  # fmt: skip

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        is_new_on_host = name == "lift_fresh" and args[0].ndim > 0
        if name in self.REFUSED or is_new_on_host:
            raise RuntimeError(f"{name} cannot be recorded")
        return func(*args, **(kwargs or {}))


def strictly(call: Replay) -> Replay:
    with NoLooksAtNumbers():
        call()
    return call


@pytest.mark.parametrize("family", FAMILIES)
def test_no_family_looks_at_numbers_inside_a_pass(family: str) -> None:
    made = target(family)
    made.use_static_shapes(strictly)
    engine(made, "copy").generate(requests(SAMPLING["greedy"], 2))
    assert runner(made).obstacle is None
    assert runner(made).shapes


@torch.inference_mode()
def test_a_look_at_a_number_is_noticed() -> None:
    with pytest.raises(RuntimeError, match="cannot be recorded"), NoLooksAtNumbers():
        torch.ones(3).sum().item()
    with pytest.raises(RuntimeError, match="cannot be recorded"), NoLooksAtNumbers():
        torch.tensor([1, 2])
