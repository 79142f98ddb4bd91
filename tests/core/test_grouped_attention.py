"""Grouped heads attend as transformers' own attention has them attend."""

from __future__ import annotations

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from core import Engine
from core.budget import FixedBudget
from core.targets.decoder_only import DecoderOnly
from core.targets.grouped_attention import NAME, grouped_attention, use_grouped_attention
from tests.core.models import build, word_tokenizer
from tests.core.test_identity import SAMPLING, alone, outcome, requests


class Layer(torch.nn.Module):
    num_key_value_groups = 3
    is_causal = True


@pytest.mark.parametrize("num_queries", [1, 2, 7, 130])
@pytest.mark.parametrize("mask_rows", [1, 4])
def test_grouped_heads_attend_as_with_repeated_keys(num_queries: int, mask_rows: int) -> None:
    generator = torch.Generator().manual_seed(num_queries)

    def draw(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, generator=generator, dtype=torch.float64)

    query, key, value = draw(4, 6, num_queries, 8), draw(4, 2, 150, 8), draw(4, 2, 150, 8)
    mask = torch.zeros(mask_rows, 1, num_queries, 150, dtype=torch.float64)
    mask.masked_fill_(draw(*mask.shape) > 0.5, torch.finfo(mask.dtype).min)
    given = (Layer(), query, key, value, mask)
    expected, _ = sdpa_attention_forward(*given, scaling=0.3)
    found, _ = grouped_attention(*given, scaling=0.3)
    assert found.is_contiguous()
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen3"])
def test_a_model_with_grouped_attention_writes_the_same_tokens(family: str) -> None:
    model = build(family)
    use_grouped_attention(model)
    assert model.config._attn_implementation == NAME
    asked = requests(SAMPLING["sampled"], 5)
    grouped = Engine(DecoderOnly(model), word_tokenizer(), "copy", max_rows=5, budget=FixedBudget(9))
    assert outcome(grouped.generate(asked)) == outcome(alone(family, asked))


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "opt"])
def test_models_without_groups_or_with_another_attention_stay_as_they_are(family: str) -> None:
    model = build(family)
    before = model.config._attn_implementation
    use_grouped_attention(model)
    assert model.config._attn_implementation == before
