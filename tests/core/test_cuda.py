"""The same identities on a CUDA device, with graphs and without; skipped, and said so, where there is none."""

from __future__ import annotations

import pytest
import torch

from core import Engine, drafters
from core.budget import FixedBudget
from core.targets.base import Target
from core.targets.cuda_graphs import CudaCapture, use_cuda_graphs
from core.targets.decoder_only import DecoderOnly
from core.targets.encoder_decoder import EncoderDecoder
from core.targets.runners import PassOutput, StaticRunner
from tests.core.models import FAMILIES, build, word_tokenizer
from tests.core.test_identity import SAMPLING, outcome, requests
from tests.drafters.draft_models import options_for

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; torch sees none"),
]


def on_gpu(family: str, has_graphs: bool, dtype: torch.dtype = torch.float64) -> Target:
    model = build(family, dtype).to("cuda")
    target = EncoderDecoder(model) if model.config.is_encoder_decoder else DecoderOnly(model)
    if has_graphs:
        assert use_cuda_graphs(target) is None
    return target


def engine(target: Target, drafter: str) -> Engine:
    options = options_for(drafter, target)
    return Engine(
        target, word_tokenizer(), drafter, drafter_options=options, max_rows=5, budget=FixedBudget(9)
    )


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("family", FAMILIES)
def test_graphs_write_the_tokens_of_eager_plain_decoding(family: str, sampling: str) -> None:
    asked = requests(SAMPLING[sampling], 5)
    plain = engine(on_gpu(family, has_graphs=False), "none")
    expected = [outcome(plain.generate([request]))[0] for request in asked]
    target = on_gpu(family, has_graphs=True)
    for drafter in drafters.names():
        assert outcome(engine(target, drafter).generate(asked)) == expected
        assert outcome(engine(target, drafter).generate(asked[:1])) == expected[:1]
    assert isinstance(target.runner, StaticRunner)
    assert target.runner.obstacle is None
    assert target.runner.shapes


def test_a_recording_reads_its_inputs_anew_each_time() -> None:
    given = torch.zeros(3, device="cuda")
    replay = CudaCapture(given.device)(lambda: PassOutput(given * 2))
    for value in (1.0, 5.0):
        given.fill_(value)
        assert replay().logits.tolist() == [2 * value] * 3


def test_a_call_that_looks_at_its_numbers_is_refused_and_the_device_stays_usable() -> None:
    given = torch.ones(3, device="cuda")
    capture = CudaCapture(given.device)
    with pytest.raises(RuntimeError):
        capture(lambda: PassOutput(given * given.sum().item()))
    assert (given + 1).tolist() == [2.0, 2.0, 2.0]
