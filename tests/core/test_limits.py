"""What does not fit or makes no sense is refused with the numbers, and the engine stays usable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from core import Engine, Request, SamplingParams
from core.budget import FixedBudget
from core.loading import load, pick_device, pick_dtype
from tests.core.engines import KINDS, PROMPT, engine, tokens_of
from tests.core.models import VOCAB, build, repetitive, target_of, word_tokenizer


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
        {"temperature": float("inf")},
        {"top_k": -1},
        {"top_k": 5.0},
        {"seed": None},
        {"seed": 7.5},
        {"max_new_tokens": 10.5},
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


@pytest.mark.parametrize("rule", ["exact", "speculative_sampling"])
@pytest.mark.parametrize("temperature", [1e-20, 1e-29, 1e-37, 1e-40, 5e-324])
def test_a_temperature_next_to_nothing_writes_the_greedy_text(temperature: float, rule: str) -> None:
    greedy, cold = (
        tokens_of(
            engine(verification=rule).generate([Request(PROMPT)], SamplingParams(value, max_new_tokens=20))
        )
        for value in (0.0, temperature)
    )
    assert cold == greedy


def test_integers_of_other_libraries_are_integers() -> None:
    params = SamplingParams(0.8, top_k=np.int64(20), max_new_tokens=np.int32(12), seed=np.int64(5))
    assert params == SamplingParams(0.8, top_k=20, max_new_tokens=12, seed=5)
    plain, converted = (
        tokens_of(engine().generate([Request(prompt)], params)) for prompt in (PROMPT, np.array(PROMPT))
    )
    assert plain == converted


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_that_the_model_cannot_read_is_refused_before_it_joins_others(kind: str) -> None:
    shared = engine(KINDS[kind])
    (expected,) = shared.generate([Request(PROMPT)])
    pieces = shared.stream(Request(PROMPT))
    text = next(pieces)
    for token in (VOCAB, -1):
        with pytest.raises(ValueError, match=rf"token 2 of the prompt has id {token}.*0 to {VOCAB - 1}"):
            shared.add(Request([5, 6, token]))
    for prompt in ([PROMPT], torch.tensor([PROMPT, PROMPT]), [5.0, 6.0], None, {"input_ids": PROMPT}):
        with pytest.raises(ValueError, match="the prompt must be text or a flat list of token ids"):
            shared.add(Request(prompt))
    for asked in (["w5 w6"], "w5 w6"):
        with pytest.raises(ValueError, match="is no Request"):
            shared.generate(asked)
    assert text + "".join(pieces) == expected.text


@pytest.mark.parametrize(
    "drafter", ["copy", "prompt_lookup", "adaptive_trigram", "suffix_decoding", "token_recycling"]
)
def test_ids_that_the_model_lacks_in_sources_never_change_the_output(drafter: str) -> None:
    used = engine(drafter=drafter)
    (expected,) = used.generate([Request(PROMPT)])
    strange = [*PROMPT, VOCAB, *PROMPT[:5], 5000, -1, *PROMPT]
    (written,) = used.generate([Request(PROMPT, sources=(strange, strange[:13]), prediction=strange)])
    assert written.token_ids == expected.token_ids
    with pytest.raises(ValueError, match="source 1 must be text or a flat list"):
        used.generate([Request(PROMPT, sources=(PROMPT, 7))])


def test_a_single_text_is_one_source() -> None:
    assert Request(PROMPT, sources="w5 w6").sources == ("w5 w6",)


def test_unknown_names_are_refused_with_the_choices(tmp_path: Path) -> None:
    target = target_of("llama")
    with pytest.raises(ValueError, match=r"'psychic'.*copy.*none"):
        Engine(target, word_tokenizer(), "psychic")
    with pytest.raises(ValueError, match=r"'lenient'.*exact.*typical"):
        Engine(target, word_tokenizer(), "none", verification="lenient")
    with pytest.raises(ValueError, match=r"exact=True.*'typical'"):
        Engine(target, word_tokenizer(), "none", verification="typical", exact=True)
    with pytest.raises(ValueError, match="max_rows=0"):
        Engine(target, word_tokenizer(), "none", max_rows=0)
    with pytest.raises(ValueError, match=r"'toaster'.*cpu"):
        pick_device("toaster")
    with pytest.raises(ValueError, match=r"'mps'.*cpu"):
        pick_device("mps")
    with pytest.raises(ValueError, match=r"'float3'.*float32"):
        pick_dtype("float3", torch.device("cpu"))
    cuda = torch.device("cuda")
    assert pick_dtype("auto", cuda) is pick_dtype("auto", cuda, torch.bfloat16) is torch.bfloat16
    assert pick_dtype("auto", cuda, torch.float32) is pick_dtype("float32", cuda) is torch.float32
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


def test_settings_of_a_generation_config_that_are_not_applied_are_named_at_load(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = build("bart", torch.float32)
    word_tokenizer().save_pretrained(tmp_path)
    # What changes nothing, or only the last token of a text that is cut off.
    model.generation_config.update(
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        min_length=0,
        forced_eos_token_id=2,
        bad_words_ids=[[7]],
    )
    model.save_pretrained(tmp_path)
    load(tmp_path, "cpu")
    assert not caplog.messages
    model.generation_config.update(
        repetition_penalty=1.2, no_repeat_ngram_size=3, bad_words_ids=[[7], [8, 9]]
    )
    model.save_pretrained(tmp_path)
    load(tmp_path, "cpu")
    (told,) = caplog.messages
    assert "repetition_penalty=1.2, no_repeat_ngram_size=3, bad_words_ids of several tokens" in told


@pytest.mark.parametrize("shipped", ["gec-small", "chat-small"])
def test_the_shipped_models_ask_for_nothing_that_is_not_applied(
    shipped: str, caplog: pytest.LogCaptureFixture
) -> None:
    load(Path(__file__).parents[2] / "data" / "models" / shipped, "cpu")
    assert not caplog.messages
