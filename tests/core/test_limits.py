"""What does not fit or makes no sense is refused with the numbers, and the engine stays usable."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from core import Engine, Request, SamplingParams
from core.budget import FixedBudget
from core.loading import pick_device, pick_dtype
from tests.core.engines import KINDS, PROMPT, engine
from tests.core.models import build, repetitive, target_of, word_tokenizer


def test_nothing_asked_is_nothing_answered() -> None:
    assert engine().generate([]) == []


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt", "mistral"])
def test_the_context_limit_cuts_the_output_and_refuses_what_leaves_no_room(family: str) -> None:
    limited = Engine(
        target_of(family, max_position_embeddings=24)
        if family != "gpt2"
        else target_of(family, n_positions=24),
        word_tokenizer(),
        "copy",
        budget=FixedBudget(9),
    )
    limited.target.eos_token_ids = frozenset()
    for length in (23, 20, 9):
        (completion,) = limited.generate([Request(repetitive(length, seed=0))])
        assert len(completion.token_ids) == 24 - length
        assert completion.finish_reason == "length"
    for length in (24, 40):
        with pytest.raises(ValueError, match=f"{length} tokens.*24"):
            limited.generate([Request(repetitive(length, seed=0))])
    assert not limited.running


@pytest.mark.parametrize("family", ["bart", "bart-stock"])
def test_a_source_longer_than_the_encoder_is_refused_with_the_numbers(family: str) -> None:
    limited = Engine(target_of(family, max_position_embeddings=24), word_tokenizer(), budget=FixedBudget(9))
    limited.target.eos_token_ids = frozenset()
    (completion,) = limited.generate([Request(repetitive(24, seed=0))])
    assert len(completion.token_ids) == 23
    with pytest.raises(ValueError, match=r"25 tokens.*24"):
        limited.generate([Request(repetitive(25, seed=0))])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prompt", ["", []])
def test_an_empty_prompt_is_an_error_that_says_so(kind: str, prompt: str | list[int]) -> None:
    asked = engine(KINDS[kind])
    with pytest.raises(ValueError, match="prompt is empty"):
        asked.generate([Request(PROMPT), Request(prompt)])
    assert not asked.running
    assert len(asked.generate([Request(PROMPT)])) == 1


def test_parameters_out_of_range_name_the_value() -> None:
    for wrong in (
        {"temperature": -1},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_p": 0},
        {"top_p": 1.5},
        {"min_p": 2},
        {"max_new_tokens": 0},
    ):
        ((name, value),) = wrong.items()
        with pytest.raises(ValueError, match=f"{name}={value}"):
            SamplingParams(**wrong)
    with pytest.raises(ValueError, match="stop string is empty"):
        SamplingParams(stop=("",))
    assert SamplingParams(stop="END").stop == ("END",)
    with pytest.raises(ValueError, match="1 source_weights for 2 sources"):
        Request("a", sources=("b", "c"), source_weights=(1.0,))


def test_unknown_names_are_refused_with_the_choices(tmp_path: Path) -> None:
    target = target_of("llama")
    with pytest.raises(ValueError, match=r"'psychic'.*copy.*none"):
        Engine(target, word_tokenizer(), "psychic")
    with pytest.raises(ValueError, match=r"'lenient'.*exact.*typical"):
        Engine(target, word_tokenizer(), "none", verification="lenient")
    with pytest.raises(ValueError, match="max_rows=0"):
        Engine(target, word_tokenizer(), "none", max_rows=0)
    with pytest.raises(ValueError, match=r"'toaster'.*cpu"):
        pick_device("toaster")
    with pytest.raises(ValueError, match=r"'mps'.*cpu"):
        pick_device("mps")
    with pytest.raises(ValueError, match=r"'float3'.*float32"):
        pick_dtype("float3", torch.device("cpu"))
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"'cuda'.*no CUDA"):
            pick_device("cuda")
    with pytest.raises(ValueError, match=r"no model folder at './nowhere'"):
        Engine.from_pretrained("./nowhere")
    with pytest.raises(ValueError, match=r"no config\.json"):
        Engine.from_pretrained(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_is_loaded_and_writes_the_same(kind: str, tmp_path: Path) -> None:
    model = build(KINDS[kind], torch.float32)
    model.save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    loaded = Engine.from_pretrained(tmp_path, drafter="copy", dtype="float64")
    prompt = " ".join(f"w{token}" for token in PROMPT)
    (from_text,) = loaded.generate([Request(prompt)], SamplingParams(max_new_tokens=20))
    (from_ids,) = loaded.generate([Request(PROMPT)], SamplingParams(max_new_tokens=20))
    target = target_of(KINDS[kind], torch.float32)
    (direct,) = Engine(target, word_tokenizer(), "none").generate(
        [Request(PROMPT)], SamplingParams(max_new_tokens=20)
    )
    assert from_text.token_ids == from_ids.token_ids == direct.token_ids
    assert from_text.text == word_tokenizer().decode(direct.token_ids, skip_special_tokens=True)
