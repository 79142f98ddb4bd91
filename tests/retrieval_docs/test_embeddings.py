"""Vectors are what the model's own files say, and none is computed twice."""

from __future__ import annotations

import asyncio
import functools
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from langchain_core.embeddings import Embeddings
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests
from tiny_encoder import LETTERS, write_encoder, write_json
from transformers import AutoModel, AutoTokenizer

from retrieval import offline_model
from retrieval.embedding_cache import EmbeddingCache
from retrieval.embeddings import BLOCK, TransformerEmbeddings
from retrieval.encoder import SentenceEncoder
from retrieval.encoder_config import POOLING_MODES
from retrieval.offline_model import default_embeddings, packaged_folder
from retrieval.pooling import pool

TEXTS = ["a cat sat", "on the mat", "", "x", "a rather longer text, with marks!", "a cat sat", "Zebra " * 40]

needs_package = pytest.mark.skipif(packaged_folder() is None, reason="the extra 'offline' is not installed")


@pytest.fixture(scope="module")
def packaged() -> TransformerEmbeddings:
    embeddings, reason = default_embeddings()
    if embeddings is None:
        pytest.skip(reason)
    return embeddings


class CountedEncoder:
    """Stands before an encoder and writes down what it is asked for."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder, self.asked = encoder, list[str]()

    def encode(self, texts: list[str], prompt: str = "", batch_size: int = 32) -> np.ndarray:
        self.asked += [prompt + text for text in texts]
        return self.encoder.encode(texts, prompt, batch_size)


def counted(embeddings: TransformerEmbeddings) -> CountedEncoder:
    encoder = CountedEncoder(embeddings.encoder)
    embeddings.encoder = encoder  # type: ignore[assignment]
    return encoder


@functools.cache
def loaded(folder: Path) -> tuple[Any, Any]:
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(
        folder, dtype=torch.float32
    ).eval()


@torch.inference_mode()
def token_states(folder: Path, text: str, max_length: int) -> torch.Tensor:
    tokenizer, model = loaded(folder)
    ids = tokenizer(text, truncation=True, max_length=max_length, padding=False, return_tensors="pt")
    states: torch.Tensor = model(**ids).last_hidden_state[0]
    return states


class TestUnitByLangChain(EmbeddingsUnitTests):
    folder: Path

    @pytest.fixture(autouse=True)
    def _folder(self, tiny_folder: Path) -> None:
        type(self).folder = tiny_folder

    @property
    def embeddings_class(self) -> type[Embeddings]:
        return TransformerEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, object]:
        return {"model": self.folder}


class TestIntegrationByLangChain(EmbeddingsIntegrationTests):
    folder: Path

    @pytest.fixture(autouse=True)
    def _folder(self, tiny_folder: Path) -> None:
        type(self).folder = tiny_folder

    @property
    def embeddings_class(self) -> type[Embeddings]:
        return TransformerEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, object]:
        return {"model": self.folder}


@needs_package
class TestPackagedModelByLangChain(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return TransformerEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, object]:
        return {"model": packaged_folder()}


def test_the_packaged_model_is_pooled_by_mean_over_256_tokens_and_normalised(
    packaged: TransformerEmbeddings,
) -> None:
    folder = packaged_folder()
    assert folder is not None
    texts = ["How do I reset it?", "the mat " * 300, "x"]
    by_hand = [token_states(folder, text, 256) for text in texts]
    assert [len(states) for states in by_hand][1] == 256
    expected = torch.stack([states.mean(dim=0) / states.mean(dim=0).norm() for states in by_hand]).numpy()
    assert np.abs(packaged.embed_matrix(texts) - expected).max() < 2e-6
    assert packaged.dimension == 384
    assert packaged.max_tokens == 254


def test_the_packaged_model_finds_the_same_meaning_in_other_words(packaged: TransformerEmbeddings) -> None:
    passages = ["The kitten is asleep on a rug.", "Interest rates rose again.", "Restart the router first."]
    scores = packaged.embed_matrix(passages) @ np.array(packaged.embed_query("a small cat sleeping"))
    assert scores.argmax() == 0


@pytest.mark.parametrize(
    ("pooling", "by_hand"),
    [
        ({"pooling_mode_mean_tokens": True}, lambda s: s.mean(0)),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, lambda s: s[0]),
        ({"pooling_mode": "lasttoken"}, lambda s: s[-1]),
        ({"pooling_mode": "max"}, lambda s: s.amax(0)),
        ({"pooling_mode": ["mean", "max"]}, lambda s: torch.cat([s.mean(0), s.amax(0)])),
        ({"pooling_mode": "mean_sqrt_len_tokens"}, lambda s: s.sum(0) / len(s) ** 0.5),
        (
            {"pooling_mode": "weightedmean"},
            lambda s: (s * (w := torch.arange(1, len(s) + 1).unsqueeze(1))).sum(0) / w.sum(),
        ),
    ],
    ids=["mean", "cls", "last", "max", "two", "sqrt", "weighted"],
)
def test_every_pooling_equals_the_one_made_by_hand(tmp_path: Path, pooling: dict, by_hand) -> None:  # type: ignore[no-untyped-def, type-arg]
    folder = write_encoder(tmp_path / "model", pooling=pooling)
    expected = [by_hand(token_states(folder, text, 48)) for text in TEXTS]
    embeddings = TransformerEmbeddings(folder)
    matrix = embeddings.embed_matrix(TEXTS)
    assert matrix.shape == (len(TEXTS), embeddings.dimension)
    for row, vector in zip(matrix, expected, strict=True):
        assert np.abs(row - (vector / vector.norm()).numpy()).max() < 1e-5


@pytest.mark.parametrize("mode", POOLING_MODES)
def test_padding_on_either_side_changes_no_pooled_vector(mode: str) -> None:
    states = torch.randn(2, 5, 3)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    left_states, left_mask = states.clone(), torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    left_states[1] = states[1].roll(2, dims=0)
    for prompt_tokens in (0, 1):
        right = pool([mode], states, mask, prompt_tokens)
        assert torch.allclose(pool([mode], left_states, left_mask, prompt_tokens), right, atol=1e-6)
        assert torch.allclose(pool([mode], states[1:, :3], mask[1:, :3], prompt_tokens), right[1:], atol=1e-6)


def test_a_prompt_that_is_not_pooled_is_read_all_the_same(tmp_path: Path) -> None:
    folder = write_encoder(
        tmp_path / "model",
        pooling={"pooling_mode_mean_tokens": True, "include_prompt": False},
        config_sentence_transformers={"prompts": {"query": "ask: ", "document": "text: "}},
    )
    embeddings = TransformerEmbeddings(folder)
    question = token_states(folder, "ask: a cat", 48)[len("[ask:") :].mean(dim=0)
    passage = token_states(folder, "text: a cat", 48)[len("[text:") :].mean(dim=0)
    assert np.abs(embeddings.embed_query("a cat") - (question / question.norm()).numpy()).max() < 1e-5
    assert np.abs(embeddings.embed_matrix(["a cat"])[0] - (passage / passage.norm()).numpy()).max() < 1e-5


def test_a_dense_layer_projects_what_was_pooled(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    folder = write_encoder(tmp_path / "model", pooling={"pooling_mode": "cls"})
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense"}
    write_json(
        folder / "modules.json",
        [{"path": path, "type": f"sentence_transformers.models.{k}"} for path, k in kinds.items()],
    )
    write_json(
        folder / "2_Dense" / "config.json",
        {
            "in_features": 16,
            "out_features": 4,
            "bias": False,
            "activation_function": "torch.nn.modules.activation.Tanh",
        },
    )
    weight = torch.randn(4, 16)
    save_file({"linear.weight": weight}, folder / "2_Dense" / "model.safetensors")
    embeddings = TransformerEmbeddings(folder)
    expected = torch.tanh(weight @ token_states(folder, "a cat", 48)[0])
    assert embeddings.dimension == 4
    assert np.abs(embeddings.embed_matrix(["a cat"])[0] - expected.numpy()).max() < 1e-5


def test_a_plain_transformers_model_is_pooled_by_mean_and_not_normalised(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "model")
    vector = TransformerEmbeddings(folder).embed_matrix(["a cat"])[0]
    assert np.abs(vector - token_states(folder, "a cat", 64).mean(0).numpy()).max() < 1e-5
    assert abs(np.linalg.norm(vector) - 1) > 0.05


def test_the_order_of_the_texts_is_kept_whatever_their_lengths(tiny_folder: Path) -> None:
    texts = ["".join(LETTERS[:n]) for n in (30, 1, 17, 4, 25, 2)]
    one_by_one = np.concatenate([TransformerEmbeddings(tiny_folder).embed_matrix([text]) for text in texts])
    assert (
        np.abs(TransformerEmbeddings(tiny_folder, batch_size=2).embed_matrix(texts) - one_by_one).max() < 1e-6
    )


def test_no_text_is_embedded_twice_by_one_run_or_by_two(tiny_folder: Path, tmp_path: Path) -> None:
    texts = [f"text {i % 300}" for i in range(3 * BLOCK)]
    first = TransformerEmbeddings(tiny_folder, cache=tmp_path / "c" / "cache.sqlite")
    asked = counted_texts(first, texts)
    assert sorted(asked) == sorted(set(texts))
    again = TransformerEmbeddings(tiny_folder, cache=tmp_path / "c" / "cache.sqlite")
    encoder = counted(again)
    assert np.array_equal(again.embed_matrix(texts), first.embed_matrix(texts))
    assert encoder.asked == []
    assert again.embed_query("text 7") == first.embed_documents(["text 7"])[0]


def counted_texts(embeddings: TransformerEmbeddings, texts: list[str]) -> list[str]:
    encoder, before = counted(embeddings), embeddings.encoder
    embeddings.embed_matrix(texts)
    embeddings.encoder = before if isinstance(before, SentenceEncoder) else embeddings.encoder
    return encoder.asked


def test_another_model_never_gets_these_vectors(tiny_folder: Path, tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "cache.sqlite")
    first = TransformerEmbeddings(tiny_folder, cache=cache)
    # Same names, same sizes, other weights: a model that was trained on in its place.
    other = TransformerEmbeddings(write_encoder(tmp_path / "tiny", seed=1, pooling={}), cache=cache)
    third = TransformerEmbeddings(write_encoder(tmp_path / "c", pooling={"pooling_mode": "cls"}), cache=cache)
    vectors = [embeddings.embed_query("a cat") for embeddings in (first, other, third)]
    assert len({embeddings.identity for embeddings in (first, other, third)}) == 3
    assert vectors[0] != vectors[1] != vectors[2] != vectors[0]


def test_a_copy_of_the_folder_is_the_same_model(tiny_folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny_folder, tmp_path / "copy"))
    (copy / "README.md").write_text("notes")
    assert TransformerEmbeddings(copy).identity == TransformerEmbeddings(tiny_folder).identity


def test_prompts_are_part_of_what_is_embedded_and_remembered(tiny_folder: Path) -> None:
    plain, e5 = (
        TransformerEmbeddings(tiny_folder, cache=(cache := EmbeddingCache())),
        TransformerEmbeddings(tiny_folder, cache=cache, query_prompt="query: ", document_prompt="passage: "),
    )
    assert e5.embed_query("a cat") == plain.embed_query("query: a cat")
    assert e5.embed_documents(["a cat"])[0] == plain.embed_query("passage: a cat")
    assert e5.max_tokens == plain.max_tokens - len("passage:")


def test_many_threads_embed_each_text_once_and_agree(tiny_folder: Path) -> None:
    embeddings = TransformerEmbeddings(tiny_folder)
    expected = TransformerEmbeddings(tiny_folder).embed_matrix(TEXTS)
    encoder, ready = counted(embeddings), threading.Barrier(8)

    def ask() -> np.ndarray:
        ready.wait()
        return embeddings.embed_matrix(TEXTS)

    with ThreadPoolExecutor(8) as pool:
        for matrix in [future.result() for future in [pool.submit(ask) for _ in range(8)]]:
            assert np.abs(matrix - expected).max() < 1e-6
    assert sorted(encoder.asked) == sorted(set(TEXTS))


def test_the_async_forms_leave_the_loop_free(tiny_folder: Path) -> None:
    async def both() -> tuple[list[list[float]], bool]:
        embeddings, ticked = TransformerEmbeddings(tiny_folder), asyncio.Event()
        task = asyncio.create_task(embeddings.aembed_documents(["x" * n for n in range(400)]))
        await asyncio.sleep(0)
        ticked.set()
        was_running = not task.done()
        return await task, was_running

    vectors, was_running = asyncio.run(both())
    assert len(vectors) == 400
    assert was_running


def test_a_damaged_cache_names_itself_and_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    path.write_bytes(b"this is no database, but it is long enough to be one" * 40)
    with pytest.raises(ValueError, match=r"cache\.sqlite is no usable cache .* delete it"):
        EmbeddingCache(path)


def test_a_vector_of_another_length_counts_as_absent() -> None:
    cache = EmbeddingCache()
    cache.put("m", ["a"], np.ones((1, 4), dtype=np.float32))
    assert cache.get("m", ["a"], 8) == {}
    assert cache.get("m", ["a"], 4)["a"].tolist() == [1, 1, 1, 1]


def test_a_cache_that_cannot_be_written_is_read(tiny_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    known = TransformerEmbeddings(tiny_folder, cache=path).embed_query("known")
    cache = EmbeddingCache(path)
    cache._connection.execute("PRAGMA query_only = ON")  # what a read-only file answers, for root as well
    embeddings = TransformerEmbeddings(tiny_folder, cache=cache)
    encoder = counted(embeddings)
    assert embeddings.embed_query("known") == known
    assert embeddings.embed_query("new") != known
    assert encoder.asked == ["new"]


def test_a_folder_never_asks_the_network(tiny_folder: Path, socket_disabled: None) -> None:
    assert len(TransformerEmbeddings(tiny_folder).embed_query("a cat")) == 16


@pytest.mark.parametrize(
    "name", ["./no-such-folder", "/no/such/folder", "~/no-such-folder", Path("org/name")]
)
def test_a_mistyped_path_is_not_looked_up_on_the_hub(name: str | Path, socket_disabled: None) -> None:
    with pytest.raises(ValueError, match="no model folder at"):
        TransformerEmbeddings(name)


def test_a_module_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "model", pooling={})
    write_json(folder / "modules.json", [{"path": "", "type": "sentence_transformers.models.CNN"}])
    with pytest.raises(ValueError, match="CNN module"):
        TransformerEmbeddings(folder)


def test_one_string_in_place_of_a_list_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(ValueError, match="one string"):
        TransformerEmbeddings(tiny_folder).embed_documents("a cat")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="only strings"):
        TransformerEmbeddings(tiny_folder).embed_documents([7])  # type: ignore[list-item]


def test_lone_surrogates_and_no_texts_at_all_are_embedded(tiny_folder: Path) -> None:
    embeddings = TransformerEmbeddings(tiny_folder)
    assert len(embeddings.embed_query("broken \ud800 text")) == 16
    assert embeddings.embed_documents([]) == []


def test_without_the_package_the_default_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline_model, "PACKAGE", "no-such-distribution")
    embeddings, reason = default_embeddings()
    assert embeddings is None
    assert "BM25" in reason
    assert "echodraft[offline]" in reason


@needs_package
def test_weights_that_are_not_the_published_ones_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(str(packaged_folder()), tmp_path / "copy"))
    with (folder / "model.safetensors").open("r+b") as weights:
        weights.seek(50_000_000)
        weights.write(b"\x01")
    monkeypatch.setattr(offline_model, "packaged_folder", lambda: folder)
    embeddings, reason = default_embeddings()
    assert embeddings is None
    assert "reinstall" in reason
