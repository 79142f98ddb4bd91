"""The lean forward of BART equals transformers' own: logits on ragged rows and trees, and generated tokens."""

from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)

from core import Engine, Request, SamplingParams
from core.packing import PackedRow
from core.targets.base import UnsupportedModelError
from core.targets.encoder_decoder import EncoderDecoder
from core.targets.lean_bart import LeanBart
from core.targets.linear import Int8Linear, PackedLinear, PlainLinear
from core.targets.registry import target_for
from core.types import DraftTree

CHAIN = DraftTree([5, 6, 7, 8, 9], [-1, 0, 1, 2, 3])
BRANCHES = DraftTree([5, 6, 7, 8, 5, 9], [-1, -1, 0, 2, 1, 4])
ROOT = Path(__file__).parents[2]
#: The shipped model, or a weaker one of the same shape.
TRAINED = [ROOT / "data/models/gec-small", ROOT.parent / "shared/models/gec-probe"]


def tiny(dtype=torch.float64, **changes) -> BartForConditionalGeneration:
    torch.manual_seed(3)
    settings = {
        "vocab_size": 61, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40,
        "max_position_embeddings": 64, "init_std": 0.3, "forced_eos_token_id": None,
    }  # fmt: skip
    model = BartForConditionalGeneration(BartConfig(**(settings | changes))).to(dtype).eval()
    model.final_logits_bias.normal_()
    return model.requires_grad_(False)


def path_logits(model, source, path):
    """transformers' own logits behind the last token of a path, in a fresh pass."""
    out = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([path]))
    return out.logits[0, -1]


def check_pass(target, model, sources, committed, trees, atol):
    """Every node's logits equal a fresh pass over the path to it."""
    rows = [PackedRow(len(c) - 1, c[-1:], t) for c, t in zip(committed, trees, strict=True)]
    output = target.forward(target.pack(rows))
    for b, (source, tokens, tree) in enumerate(zip(sources, committed, trees, strict=True)):
        paths = [tokens]
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            paths.append([*paths[parent + 1], token])
        logits = output.row_logits(b, len(paths))
        for query, path in enumerate(paths):
            torch.testing.assert_close(logits[query], path_logits(model, source, path), atol=atol, rtol=0)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-11), (torch.float32, 2e-4)])
@pytest.mark.parametrize(
    "changes",
    [{}, {"scale_embedding": True}, {"activation_function": "gelu_new"}, {"activation_function": "silu"}],
)
@torch.inference_mode()
def test_every_node_equals_a_fresh_pass_over_its_path(changes, dtype, atol):
    sources = [[4, 9, 17, 2], [11, 2], [30, 31, 32, 33, 34, 35, 36, 2]]
    model = tiny(dtype, **changes)
    target = LeanBart(model)
    oracle = tiny(dtype, **changes)
    target.join(0, sources[:2])
    committed = [[2], [2]]
    check_pass(target, oracle, sources[:2], committed, [CHAIN, BRANCHES], atol)
    # Row 0 keeps a chain, row 1 a branch; a third row joins.
    target.commit(0, 1, (0, 1))
    target.commit(1, 1, (1, 4))
    committed = [[2, 5, 6, 20], [2, 6, 5, 21], [2]]
    target.join(2, sources[2:])
    check_pass(target, oracle, sources, committed, [BRANCHES, CHAIN, CHAIN], atol)
    # Row 0 leaves: the last row takes its slot.
    target.leave(0, 2, 0)
    order = [2, 1]
    check_pass(
        target, oracle, [sources[i] for i in order], [committed[i] for i in order], [BRANCHES, CHAIN], atol
    )
    # One row alone takes the shortest way.
    target.leave(0, 1, 3)
    check_pass(target, oracle, [sources[1]], [committed[1]], [CHAIN], atol)
    check_pass(target, oracle, [sources[1]], [committed[1]], [BRANCHES], atol)


@torch.inference_mode()
def test_hidden_states_are_the_decoders_last():
    model, oracle = tiny(), tiny()
    target = LeanBart(model)
    target.join(0, [[4, 9, 2]])
    hidden = target.forward(target.pack([PackedRow(0, [2], CHAIN)]), need_hidden=True).hidden
    out = oracle(
        input_ids=torch.tensor([[4, 9, 2]]),
        decoder_input_ids=torch.tensor([[2, *CHAIN.tokens]]),
        output_hidden_states=True,
    )
    torch.testing.assert_close(hidden[:6], out.decoder_hidden_states[-1][0])


def test_only_bart_itself_on_the_cpu_takes_the_lean_way():
    class Changed(BartForConditionalGeneration):
        pass

    model = tiny()
    assert type(target_for(model)) is type(target_for(model)) is LeanBart
    assert type(target_for(Changed(tiny().config).eval())) is EncoderDecoder


@torch.inference_mode()
def test_packed_and_plain_maps_agree():
    weight, bias, x = torch.randn(24, 16), torch.randn(24), torch.randn(5, 16)
    residual = torch.randn(5, 24)
    for activation in (None, "relu", "gelu", "gelu_new", "silu"):
        plain, packed = (form(weight, bias, activation) for form in (PlainLinear, PackedLinear))
        torch.testing.assert_close(packed(x), plain(x))
    plain, packed = PlainLinear(weight, None), PackedLinear(weight, None)
    torch.testing.assert_close(packed.plus(x, residual), plain.plus(x, residual))


@pytest.mark.parametrize("num_rows", [3, 200])
@torch.inference_mode()
def test_int8_maps_are_near(num_rows):
    weight, bias, x = torch.randn(24, 16), torch.randn(24), torch.randn(num_rows, 16)
    exact, near = PlainLinear(weight, bias, "gelu")(x), Int8Linear(weight, bias, "gelu")(x)
    assert (near - exact).norm() < 0.03 * exact.norm()
    residual = torch.randn(num_rows, 24)
    exact, near = (form(weight, bias).plus(x, residual) for form in (PlainLinear, Int8Linear))
    assert (near - exact).norm() < 0.03 * exact.norm()


def test_int8_is_refused_where_there_is_no_such_form():
    with pytest.raises(UnsupportedModelError, match="int8"):
        target_for(T5ForConditionalGeneration(T5Config(vocab_size=8, d_model=8, num_layers=1)), is_int8=True)


def assert_same_as_generate(model, tokenizer, engine_target, prompts, drafter):
    params = SamplingParams(max_new_tokens=24)
    done = Engine(engine_target, tokenizer, drafter, max_rows=3).generate(
        [Request(p) for p in prompts], params
    )
    for prompt, completion in zip(prompts, done, strict=True):
        ids = torch.tensor([prompt])
        expected = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, num_beams=1, max_new_tokens=24
        )
        assert completion.token_ids == expected[0, 1:].tolist()


class NoTokenizer:
    def decode(self, ids, **options):
        return " ".join(map(str, ids))


@pytest.mark.parametrize("drafter", ["none", "copy"])
def test_tokens_equal_generate_on_a_random_model(drafter):
    prompts = [[4, 9, 17, 2], [11, 2], [30, 31, 32, 33, 34, 35, 36, 2], [12, 13, 12, 13, 2], [7, 2]]
    assert_same_as_generate(
        tiny(torch.float32), NoTokenizer(), LeanBart(tiny(torch.float32)), prompts, drafter
    )


@pytest.mark.parametrize("drafter", ["none", "copy"])
def test_tokens_equal_generate_on_a_trained_model(drafter):
    folder = next((folder for folder in TRAINED if (folder / "config.json").is_file()), None)
    if folder is None:
        pytest.skip(f"none of {', '.join(map(str, TRAINED))} is here")
    oracle, model = (
        AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval() for _ in range(2)
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = ["She go to school yesterday .", "I likes the dogs and the cats , but they is not like me ."]
    assert_same_as_generate(oracle, tokenizer, LeanBart(model), [tokenizer.encode(t) for t in texts], drafter)
