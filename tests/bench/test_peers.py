"""On a small random BART every runtime of the race writes the same tokens, whatever the batch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

from apps.bench.peers import CTranslate2Model, TransformersPeer, in_chunks
from apps.bench.timing import Output

TEXTS = ["a b c", "b", "c a b a c b a", "a a"]
MAX_NEW_TOKENS = 12


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random model of the shipped class, stored in bfloat16 as the shipped one is."""
    folder = tmp_path_factory.mktemp("bart")
    words = ["<s>", "<pad>", "</s>", "<unk>", *"abcdefgh"]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=len(words), d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64,
        forced_eos_token_id=None, decoder_start_token_id=2, init_std=0.5,
    )  # fmt: skip
    BartForConditionalGeneration(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


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


@pytest.mark.parametrize("rows", [1, 3])
def test_ctranslate2_converts_the_weights_and_writes_the_same_tokens(
    model: Path, greedy: list[Output], rows: int
) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `bench` is not installed")
    with CTranslate2Model(model, MAX_NEW_TOKENS) as converted:
        outputs = converted.runner("float32", workers=2, threads=1)(TEXTS, rows)
        folder = Path(converted._folder.name)
        assert folder.exists()
    assert [out.token_ids for out in outputs] == [out.token_ids for out in greedy]
    assert not folder.exists()


def test_a_missing_extra_names_itself(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ImportError, match=r"echodraft\[bench\]"):
        CTranslate2Model(model, MAX_NEW_TOKENS)


def test_batches_are_sorted_by_length_and_put_back_in_order() -> None:
    seen: list[list[str]] = []

    def correct(texts: list[str]) -> list[Output]:
        seen.append(texts)
        return [Output((), text.upper()) for text in texts]

    assert [out.text for out in in_chunks(["ccc", "a", "bb"], 2, correct)] == ["CCC", "A", "BB"]
    assert seen == [["a", "bb"], ["ccc"]]
