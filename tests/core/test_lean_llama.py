"""The lean forward of Llama equals transformers' own, for every setting that changes what a layer computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from core import Engine, Request, SamplingParams
from core.packing import PackedRow
from core.targets.decoder_only import DecoderOnly
from core.targets.lean_llama import LeanLlama
from core.targets.linear import Int8Linear
from core.targets.registry import target_for
from core.types import DraftTree
from tests.core.models import build, repetitive, word_tokenizer
from tests.core.test_families import largest_difference

_LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "shared keys": {},
    "a key for each head": {"num_key_value_heads": 4},
    "one key for all heads": {"num_key_value_heads": 1},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "wide heads": {"head_dim": 16},
    "another activation": {"hidden_act": "gelu_pytorch_tanh"},
    "scaled rotation": {"rope_parameters": _LLAMA3},
    "tied head": {"tie_word_embeddings": True},
    "one layer": {"num_hidden_layers": 1},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_node_equals_a_fresh_pass_over_its_path(setting: str) -> None:
    model = build("llama", **SETTINGS[setting])
    target = target_for(model)
    assert type(target) is LeanLlama
    assert largest_difference(target, model) < 1e-9


def test_float32_differs_by_rounding_only() -> None:
    model = build("llama", torch.float32)
    assert largest_difference(LeanLlama(model), model) < 1e-4


@torch.inference_mode()
def test_a_prompt_read_in_pieces_leaves_the_cache_of_the_stock_module() -> None:
    model = build("llama")
    lean, stock = LeanLlama(model), DecoderOnly(model)
    prompts = [repetitive(length, seed=length) for length in (40, 3, 1, 21)]
    for target in (lean, stock):
        target.prefill_chunk = 16
        target.join(0, prompts)
    for slot, prompt in enumerate(prompts):
        held = [target.cache.data[:, :, slot, :, : len(prompt) - 1] for target in (lean, stock)]
        torch.testing.assert_close(*held, rtol=0, atol=1e-9)


@torch.inference_mode()
def test_hidden_states_are_those_after_the_final_norm() -> None:
    model = build("llama")
    target, tokens = LeanLlama(model), repetitive(9, seed=0)
    target.join(0, [tokens[:4]])
    chain = DraftTree(tokens[4:], list(range(-1, 4)))
    output = target.forward(target.pack([PackedRow(3, tokens[3:4], chain)]), need_hidden=True)
    expected = model(torch.tensor([tokens]), output_hidden_states=True).hidden_states[-1][0, 3:]
    found = output.row_hidden(0, 6)
    assert found is not None
    torch.testing.assert_close(found, expected)


class Changed(LlamaForCausalLM):
    pass


class OtherLinear(torch.nn.Linear):
    pass


class Adapted(torch.nn.Module):
    """As adapters wrap a matrix: its weight can still be read, and is not all."""

    def __init__(self, base: torch.nn.Linear) -> None:
        super().__init__()
        self.base, self.weight, self.bias = base, base.weight, base.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * self.base(x)


def test_what_a_model_was_given_beside_its_weights_is_not_lost() -> None:
    """Subclasses, quantised matrices, adapters and hooks run through the model's own module."""
    assert type(target_for(Changed(build("llama").config).eval())) is DecoderOnly
    for change in (
        lambda attention: setattr(attention.q_proj, "__class__", OtherLinear),
        lambda attention: setattr(attention, "q_proj", Adapted(attention.q_proj)),
        lambda attention: attention.q_proj.register_forward_hook(lambda module, args, out: 2 * out),
        lambda attention: setattr(attention, "forward", attention.forward),
    ):
        model: Any = build("llama")
        assert type(target_for(model)) is LeanLlama
        change(model.model.layers[0].self_attn)
        target = target_for(model)
        assert type(target) is DecoderOnly
        assert largest_difference(target, model) < 1e-9


def test_int8_answers_like_float32_where_the_choice_is_clear() -> None:
    model = build("llama", torch.float32)
    prompts = [Request(repetitive(length, seed=length)) for length in (12, 5, 30)]
    params = SamplingParams(max_new_tokens=8)
    exact, rough = (
        Engine(target_for(model, is_int8=is_int8), word_tokenizer(), "copy").generate(prompts, params)
        for is_int8 in (False, True)
    )
    assert isinstance(target_for(model, is_int8=True).form, type(Int8Linear))
    same = sum(a.token_ids[0] == b.token_ids[0] for a, b in zip(exact, rough, strict=True))
    assert same >= 2
