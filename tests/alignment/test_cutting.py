"""Draft models cut out of their targets: exact where nothing is lost, runnable everywhere, refused where impossible."""

from __future__ import annotations

import pytest
import torch

from core import Engine, Request, SamplingParams
from core.alignment.cutting import cut_layers
from core.alignment.examples import Layout, collate
from core.alignment.forward import learnt_logits
from core.alignment.narrowing import _low_rank, narrow_bart
from core.targets.registry import target_for
from tests.alignment.aligning import FAMILIES, given
from tests.core.models import build, repetitive, word_tokenizer

SHOWN = given(8)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_model_with_all_its_layers_is_the_model(family: str) -> None:
    model = build(family)
    batch = collate(SHOWN, Layout.of(model))
    torch.testing.assert_close(learnt_logits(cut_layers(model, 2, 2), batch), learnt_logits(model, batch))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_cut_model_decodes_as_it_generates(family: str) -> None:
    short = cut_layers(build(family), 1, 1)
    assert short.num_parameters() < build(family).num_parameters()
    prompt = repetitive(9, seed=0)
    written = short.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=12)[0].tolist()
    engine = Engine(target_for(short), word_tokenizer(), "none")
    (done,) = engine.generate([Request(prompt)], SamplingParams(max_new_tokens=12))
    assert done.token_ids == written[1 if family == "bart" else len(prompt) :]


def test_a_bart_whose_states_are_flat_loses_nothing_by_being_turned() -> None:
    model = build("bart")
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.fill_(1.0 if name.endswith("weight") else 0.0)
    # Every state's mean is 0 behind such norms: one dimension of the 32 is empty.
    turned = narrow_bart(model, 32, 0, [collate(SHOWN, Layout.of(model))])
    batch = collate(given(5), Layout.of(model))
    torch.testing.assert_close(learnt_logits(turned.eval(), batch), learnt_logits(model, batch))
    assert not torch.allclose(turned.model.shared.weight, model.model.shared.weight)


def test_a_narrow_model_has_the_sizes_asked_for_and_its_own_weights() -> None:
    model = build("bart", torch.float32)
    small = narrow_bart(model, 16, 20, [collate(SHOWN, Layout.of(model))])
    assert small.config.d_model == small.lm_head.in_features == 16
    assert small.model.encoder.layers[0].fc1.out_features == 20
    assert model.config.d_model == 32
    assert all(torch.isfinite(parameter).all() for parameter in small.parameters())


def test_a_head_is_approximated_as_well_as_its_rank_allows() -> None:
    product = torch.randn(3, 9, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    lost = []
    for rank in (1, 4, 7):
        left, right = _low_rank(product, rank)
        assert (left.shape, right.shape) == ((3, 9, rank), (3, rank, 7))
        # Eckart and Young: what is lost are the singular values that were left out.
        missing = torch.linalg.svdvals(product)[:, rank:].norm(dim=1)
        torch.testing.assert_close((product - left @ right).norm(dim=(1, 2)), missing)
        lost.append(float(missing.sum()))
    assert lost[0] > lost[1] > lost[2] == 0


def test_sizes_and_models_that_cannot_be_cut_are_refused() -> None:
    model = build("bart")
    with pytest.raises(ValueError, match="3 layers cannot be kept of 2"):
        cut_layers(model, 3, 1)
    with pytest.raises(ValueError, match="width=30 must be a multiple of the 4 heads"):
        narrow_bart(model, 30, 0, [])
    with pytest.raises(ValueError, match="ffn=99"):
        narrow_bart(model, 16, 99, [])
    with pytest.raises(ValueError, match="only BART's"):
        narrow_bart(build("llama"), 16, 0, [])
    with pytest.raises(ValueError, match="models like BART and Llama"):
        cut_layers(build("t5"), 1, 1)
