"""Ragged rows and draft trees through every family's own modules: each node sees its path and nothing else."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from core import Engine, Request, SamplingParams, UnsupportedModelError
from core.packing import PackedRow
from core.targets import self_check
from core.targets.base import Target
from core.targets.registry import target_for
from core.types import DraftTree
from tests.core.models import (
    DECODER_ONLY,
    ENCODER_DECODER,
    EOS,
    FAMILIES,
    FIRST_WORD,
    PAD,
    VOCAB,
    build,
    randomised,
    repetitive,
    target_of,
    word_tokenizer,
)

#: Two siblings at the root, a branch in the middle, a deep chain in mixed order; the accepted path branches.
TREE_SHAPES = ([-1, -1, 0, 1, 1, 4, 2, 5], [-1, 0, 1, 1, -1], [])
ACCEPTED = ((1, 4, 5), (0, 1, 3), ())


def path_tokens(tree: DraftTree, node: int) -> list[int]:
    path: list[int] = []
    while node >= 0:
        path.append(tree.tokens[node])
        node = tree.parents[node]
    return path[::-1]


def fresh(stock: PreTrainedModel, prompt: list[int], tokens: list[int]) -> torch.Tensor:
    """Logits [V] behind `tokens`, by one pass of the model as transformers runs it."""
    if stock.config.is_encoder_decoder:
        out = stock(input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([tokens]))
    else:
        out = stock(input_ids=torch.tensor([tokens]))
    return out.logits[0, -1]


@torch.inference_mode()
def largest_difference(target: Target, stock: PreTrainedModel, seed: int = 0) -> float:
    """Two passes over three ragged rows with trees, a branch committed in between, against fresh passes."""
    rng = random.Random(seed)
    words = lambda count: [rng.randrange(FIRST_WORD, VOCAB) for _ in range(count)]  # noqa: E731
    prompts = [words(13), words(2), words(31)]
    lengths = target.join(0, prompts)
    rows = [target.start_tokens(prompt) for prompt in prompts]
    # Encoder-decoder rows all start with one token: make them ragged too.
    pending = [
        row[length:] + words(extra) for row, length, extra in zip(rows, lengths, (0, 9, 4), strict=True)
    ]
    rows = [row[:length] + more for row, length, more in zip(rows, lengths, pending, strict=True)]
    worst = 0.0
    for _ in range(2):
        trees = [DraftTree(words(len(shape)), shape) for shape in TREE_SHAPES]
        packed = [PackedRow(*parts) for parts in zip(lengths, pending, trees, strict=True)]
        output = target.forward(target.pack(packed))
        for b, (prompt, tokens, tree) in enumerate(zip(prompts, rows, trees, strict=True)):
            logits = output.row_logits(b, len(pending[b]) + len(tree))
            for node in range(-1, len(tree)):
                expected = fresh(stock, prompt, tokens + path_tokens(tree, node))
                got = logits[len(pending[b]) + node]
                worst = max(worst, float((got - expected).abs().max()))
        for b, (tree, path) in enumerate(zip(trees, ACCEPTED, strict=True)):
            target.commit(b, lengths[b] + len(pending[b]), path)
            lengths[b] += len(pending[b]) + len(path)
            pending[b] = words(1)
            rows[b] = rows[b] + [tree.tokens[node] for node in path] + pending[b]
    return worst


@pytest.mark.parametrize("family", FAMILIES)
def test_every_node_of_a_ragged_batch_has_the_logits_of_a_fresh_pass(family: str) -> None:
    # Gemma's norms compute in float32 whatever the model's type.
    tolerance = 1e-5 if family.startswith("gemma") else 1e-9
    assert largest_difference(target_of(family), build(family)) < tolerance


@pytest.mark.parametrize("family", FAMILIES)
def test_float32_is_as_close_as_rounding_allows(family: str) -> None:
    assert largest_difference(target_of(family, torch.float32), build(family, torch.float32)) < 1e-3


@pytest.mark.parametrize(
    "family", ["llama", "llama-stock", "mistral", "gemma3", "t5", "bart", "bart-stock", "mbart"]
)
def test_a_prompt_read_in_chunks_leaves_the_same_text(family: str) -> None:
    asked = [Request(repetitive(length, seed=length)) for length in (61, 9, 33)]
    params = SamplingParams(max_new_tokens=12)
    whole = Engine(target_of(family), word_tokenizer(), "none").generate(asked, params)
    chunked = target_of(family)
    chunked.prefill_chunk = 8
    parts = Engine(chunked, word_tokenizer(), "none").generate(asked, params)
    assert [c.token_ids for c in parts] == [c.token_ids for c in whole]


@pytest.mark.parametrize("family", ["bart", "bart-stock", "pegasus", "m2m100"])
def test_a_source_as_long_as_the_encoder_has_positions_for_is_read(family: str) -> None:
    changes = {"max_position_embeddings": 41}
    prompt = repetitive(41, seed=0)
    stock = build(family, **changes)
    written = stock.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=20)[0, 1:].tolist()
    target = target_of(family, **changes)
    (completion,) = Engine(target, word_tokenizer(), "none").generate(
        [Request(prompt)], SamplingParams(max_new_tokens=20)
    )
    assert completion.token_ids == written


@pytest.mark.parametrize("family", ["mbart", "m2m100"])
def test_a_forced_first_token_stands_before_the_output(family: str) -> None:
    stock = build(family, decoder_start_token_id=2)
    stock.generation_config.forced_bos_token_id = 17
    prompt = repetitive(20, seed=1)
    written = stock.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=21)[0].tolist()
    assert written[:2] == [2, 17]
    completions = Engine(target_for(stock), word_tokenizer(), "copy").generate(
        [Request(prompt), Request(prompt[:7])], SamplingParams(max_new_tokens=20)
    )
    assert completions[0].token_ids == written[2:]


@pytest.mark.parametrize("drafter", ["none", "copy"])
@pytest.mark.parametrize("family", ["pegasus", "qwen3"])
def test_tokens_that_the_generation_config_rules_out_are_never_written(family: str, drafter: str) -> None:
    stock = build(family)
    prompt = repetitive(20, seed=1)
    start = 1 if stock.config.is_encoder_decoder else len(prompt)

    def written() -> list[int]:
        return stock.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=20)[0].tolist()[start:]

    banned = sorted(set(written()))[:2]
    stock.generation_config.bad_words_ids = [[banned[0]], [PAD], [50, 51], [EOS]]
    stock.generation_config.suppress_tokens = [banned[1], VOCAB, -1]
    expected = written()
    assert not set(banned) & set(expected)
    (completion,) = Engine(target_for(stock), word_tokenizer(), drafter).generate(
        [Request(prompt)], SamplingParams(max_new_tokens=20)
    )
    assert completion.token_ids == expected


def test_several_start_tokens_are_refused() -> None:
    stock = build("bart-stock")
    stock.generation_config.decoder_start_token_id = [2, 17]
    with pytest.raises(UnsupportedModelError, match=r"decoder_start_token_id=\[2, 17\]"):
        target_for(stock)


def tiny(
    model_class: str, config_class: str, dtype: torch.dtype = torch.float64, **settings: Any
) -> PreTrainedModel:
    common = {"vocab_size": VOCAB, "hidden_size": 32, "num_hidden_layers": 2, "pad_token_id": PAD}
    return randomised(model_class, config_class, {**common, **settings}, dtype)


_ATTENTION = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
_BART_LIKE = {
    **{f"{part}_layers": 2 for part in ("encoder", "decoder")},
    **{f"{part}_attention_heads": 4 for part in ("encoder", "decoder")},
    **{f"{part}_ffn_dim": 48 for part in ("encoder", "decoder")},
    "d_model": 32,
    "decoder_start_token_id": EOS,
}
REFUSED: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "mamba": ("MambaForCausalLM", "MambaConfig", {"state_size": 4}, "recurrent state"),
    "jamba": (
        "JambaForCausalLM",
        "JambaConfig",
        {
            **_ATTENTION,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "use_mamba_kernels": False,
            "num_experts": 2,
        },
        "recurrent state",
    ),
    "qwen3-next": (
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        {
            **_ATTENTION,
            "head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "num_experts": 2,
            "num_experts_per_tok": 1,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 16,
        },
        "recurrent state|linear_attention",
    ),
    "led": (
        "LEDForConditionalGeneration",
        "LEDConfig",
        {**_BART_LIKE, "attention_window": [16, 16]},
        "other logits",
    ),
    "pegasus-x": (
        "PegasusXForConditionalGeneration",
        "PegasusXConfig",
        {**_BART_LIKE, "max_position_embeddings": 256, "block_size": 16, "num_global_tokens": 4},
        "places its positions",
    ),
    "fsmt": (
        "FSMTForConditionalGeneration",
        "FSMTConfig",
        {**_BART_LIKE, "langs": ["en", "de"], "src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB},
        "cannot be run with ragged rows",
    ),
    "gpt-neo": (
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]},
        "local attention",
    ),
    "bloom": ("BloomForCausalLM", "BloomConfig", {"n_head": 4}, "ALiBi"),
    "mpt": ("MptForCausalLM", "MptConfig", {"d_model": 32, "n_heads": 4, "n_layers": 2}, "ALiBi"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_cannot_be_run_exactly_is_refused_with_the_reason(name: str) -> None:
    model_class, config_class, settings, reason = REFUSED[name]
    with pytest.raises(UnsupportedModelError, match=reason):
        target_for(tiny(model_class, config_class, **settings))


#: Families nobody listed, which the check at load must let through because they run exactly.
UNLISTED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", _ATTENTION),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", _ATTENTION),
    "gpt-neox": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        {"num_attention_heads": 4, "intermediate_size": 48},
    ),
    "umt5": (
        "UMT5ForConditionalGeneration",
        "UMT5Config",
        {
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 2,
            "num_heads": 4,
            "decoder_start_token_id": PAD,
        },
    ),
    "blenderbot": (
        "BlenderbotForConditionalGeneration",
        "BlenderbotConfig",
        {**_BART_LIKE, "max_position_embeddings": 256},
    ),
    # Wants a mask for each row.
    "mvp": ("MvpForConditionalGeneration", "MvpConfig", {**_BART_LIKE, "max_position_embeddings": 256}),
}


@pytest.mark.parametrize("name", UNLISTED)
def test_an_unlisted_model_that_passes_the_check_runs_exactly(name: str) -> None:
    model_class, config_class, settings = UNLISTED[name]
    stock = tiny(model_class, config_class, **settings)
    assert stock.config.model_type not in self_check.PROVEN
    assert largest_difference(target_for(tiny(model_class, config_class, **settings)), stock) < 1e-9


@pytest.mark.parametrize("drafter", ["none", "copy"])
@pytest.mark.parametrize("name", UNLISTED)
def test_rows_of_one_length_through_an_unlisted_model_write_what_transformers_writes(
    name: str, drafter: str
) -> None:
    model_class, config_class, settings = UNLISTED[name]
    stock = tiny(model_class, config_class, **settings)
    stock.generation_config.eos_token_id = stock.config.eos_token_id = None
    stock.generation_config.forced_eos_token_id = None
    prompts = [repetitive(20, seed=seed) for seed in range(3)]
    start = 1 if stock.config.is_encoder_decoder else 20
    written = [
        stock.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=20)[0, start:].tolist()
        for prompt in prompts
    ]
    completions = Engine(target_for(stock), word_tokenizer(), drafter).generate(
        [Request(prompt) for prompt in prompts], SamplingParams(max_new_tokens=20)
    )
    assert [completion.token_ids for completion in completions] == written


def test_every_family_that_skips_the_check_is_proven_here() -> None:
    tested = {build(family).config.model_type for family in (*DECODER_ONLY, *ENCODER_DECODER)}
    assert tested == self_check.PROVEN


def test_a_mixture_of_experts_runs_exactly() -> None:
    # In float32: its matrix products over the experts know no float64.
    settings = {**_ATTENTION, "num_local_experts": 2, "sliding_window": 6}
    target, stock = (
        make(tiny("MixtralForCausalLM", "MixtralConfig", torch.float32, **settings))
        for make in (target_for, lambda model: model)
    )
    assert largest_difference(target, stock) < 1e-3


def test_an_unlisted_model_that_ignores_the_mask_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "PROVEN", frozenset())
    assert target_for(build("qwen2")).cache.num_slots >= 0
    broken = build("qwen2")
    inner = broken.model.forward

    def unmasked(*args: Any, attention_mask: Any = None, **kwargs: Any) -> Any:
        if attention_mask is not None:
            attention_mask = torch.zeros_like(attention_mask)
        return inner(*args, attention_mask=attention_mask, **kwargs)

    broken.model.forward = unmasked
    with pytest.raises(UnsupportedModelError, match="Qwen2ForCausalLM"):
        target_for(broken)
