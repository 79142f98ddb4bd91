"""KNN-LM: neighbours are the nearest, the mixture is the formula, and guessing neighbours changes no token."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from apps.ralm import Datastore, KnnConfig, KnnLM, SpeculationConfig, build_datastore
from apps.ralm.knn.cache import NeighbourCache
from apps.ralm.knn.datastore import Neighbours
from apps.ralm.knn.mixture import mix
from apps.ralm.knn.perplexity import perplexity
from core import SamplingParams
from retrieval.storage.vectors import IndexConfig
from tests.core.models import FIRST_WORD, VOCAB, word_tokenizer
from tests.ralm.corpora import PROMPTS, SAMPLING, documents, engine

TEXTS = [" ".join(document.page_content for document in documents()[i : i + 8]) for i in range(0, 40, 8)]
CONFIG = KnnConfig(k=8, weight=0.6, bandwidth=10.0)


@pytest.fixture(scope="module")
def datastore(tmp_path_factory: pytest.TempPathFactory) -> Datastore:
    return build_datastore(engine("none"), TEXTS, tmp_path_factory.mktemp("datastore"), window=17)


def test_every_token_but_the_first_of_a_text_is_an_entry_with_the_state_before_it(
    datastore: Datastore,
) -> None:
    ids = [word_tokenizer().encode(text) for text in TEXTS]
    assert datastore.tokens.tolist() == [token for tokens in ids for token in tokens[1:]]
    assert (datastore.keys.dtype, datastore.tokens.dtype) == (np.float16, np.int32)
    model = engine("none").target.model  # type: ignore[attr-defined]
    with torch.inference_mode():
        states = model.base_model(torch.tensor([ids[0][:17]])).last_hidden_state[0]
    assert np.allclose(datastore.keys[:17], states.numpy(), atol=2e-2)


@pytest.mark.parametrize("k", [1, 5, 600])
def test_the_neighbours_are_the_nearest_whatever_is_searched_with_them(datastore: Datastore, k: int) -> None:
    queries = np.random.default_rng(0).standard_normal((5, datastore.dimension)).astype(np.float32)
    queries[3] = datastore.keys[40]
    together = datastore.search(queries, k)
    keys = np.asarray(datastore.keys, dtype=np.float64)
    for query, found in zip(queries, together, strict=True):
        distances = ((keys - query) ** 2).sum(1).astype(np.float32)
        expected = sorted(range(len(keys)), key=lambda i: (distances[i], i))[:k]
        assert found.labels.tolist() == expected
        (alone,) = datastore.search(query[None], k)
        assert np.array_equal(alone.distances, found.distances)
        assert np.array_equal(alone.tokens, datastore.tokens[expected])


@pytest.mark.parametrize("k", [1, 3])
def test_equal_distances_stand_in_the_order_of_entries(tmp_path: Path, k: int) -> None:
    """More twins than are looked at first."""
    keys = np.ones((300, 4))
    store = Datastore.write(tmp_path, [(keys, np.arange(300))], 300)
    for num_queries in (1, 4):
        found = store.search(np.zeros((num_queries, 4), np.float32), k)
        assert [one.labels.tolist() for one in found] == [list(range(k))] * num_queries


def test_the_mixture_is_the_formula() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    found = Neighbours(np.arange(3), np.array([2, 0, 2], np.int32), np.array([1.0, 2.0, 3.0], np.float32))
    nearness = torch.tensor([-0.5, -1.0, -1.5], dtype=torch.float64).softmax(0)
    knn = torch.stack([nearness[1], torch.tensor(0.0), nearness[0] + nearness[2]])
    expected = 0.25 * knn + 0.75 * logits.softmax(0)
    assert torch.allclose(mix(logits, found, KnnConfig(weight=0.25, bandwidth=2.0)).exp(), expected)


def test_perplexity_is_that_of_every_token_under_the_mixture(datastore: Datastore) -> None:
    """By hand in one pass: the window holds the whole text."""
    text = documents()[39].page_content
    ids = word_tokenizer().encode(text)
    with torch.inference_mode():
        out = engine("none").target.model(torch.tensor([ids]), output_hidden_states=True)  # type: ignore[attr-defined]
    states = out.hidden_states[-1][0, :-1].to(torch.float32).numpy()
    plain = out.logits[0, :-1].softmax(-1)
    found = datastore.search(states, CONFIG.k)
    likely = []
    for row, near, token in zip(plain, found, ids[1:], strict=True):
        nearness = np.exp(-near.distances / CONFIG.bandwidth, dtype=np.float64)
        share = nearness[near.tokens == token].sum() / nearness.sum()
        likely.append(CONFIG.weight * share + (1 - CONFIG.weight) * float(row[token]))
    model = KnnLM(engine("none"), datastore, config=CONFIG)
    figures = perplexity(model, text, window=len(ids))
    assert figures["tokens"] == len(ids) - 1
    assert figures["knn_lm_perplexity"] == pytest.approx(np.exp(-np.mean(np.log(likely))), rel=1e-5)
    expected = np.exp(-np.mean([float(row[token].log()) for row, token in zip(plain, ids[1:], strict=True)]))
    assert figures["lm_perplexity"] == pytest.approx(expected)
    assert perplexity(model, text, window=8, limit=5)["tokens"] == 5


def test_a_hit_brings_the_entries_that_follow_it(datastore: Datastore) -> None:
    cache = NeighbourCache(datastore, following=10)
    cache.add(datastore.search(np.asarray(datastore.keys[[20]], np.float32), 1))
    assert len(cache) == 11
    (found,) = cache.search(np.asarray(datastore.keys[[25]], np.float32), 1)
    assert found.labels.tolist() == [25]
    cache.add(datastore.search(np.asarray(datastore.keys[[len(datastore) - 1]], np.float32), 1))
    assert len(cache) == 12


PARTS = [
    SpeculationConfig(prefetch=prefetch, scheduler=scheduler, asynchronous=asynchronous, steps=4)
    for prefetch, scheduler, asynchronous in itertools.product([1, 10], [False, True], [False, True])
]


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("drafter", ["none", "copy"])
def test_speculation_on_neighbours_writes_what_plain_knn_lm_writes(
    datastore: Datastore, sampling: str, drafter: str
) -> None:
    plain = KnnLM(engine("none"), datastore, mode="sequential", config=CONFIG)
    expected = plain.generate(PROMPTS[:2], SAMPLING[sampling])
    for parts in PARTS if drafter == "none" else PARTS[-1:]:
        ours = KnnLM(engine(drafter), datastore, config=CONFIG, speculation=parts)
        done = ours.generate(PROMPTS[:2], SAMPLING[sampling])
        assert [(c.token_ids, c.text) for c in done] == [(c.token_ids, c.text) for c in expected]
        assert done[0].stats.calls < done[0].stats.retrievals
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("verification")]


@pytest.mark.parametrize("sampling", SAMPLING)
def test_where_guesses_cannot_pay_none_is_made_and_the_text_is_the_same(
    datastore: Datastore, sampling: str
) -> None:
    plain = KnnLM(engine("none"), datastore, mode="sequential", config=CONFIG)
    ours = KnnLM(engine("none"), datastore, config=CONFIG)
    for _ in range(16):  # what a search by the million times quicker than a lookup would have shown
        ours.scheduler.fit.record_lookup(1.0)
    done = ours.generate(PROMPTS[:2], SAMPLING[sampling])
    expected = plain.generate(PROMPTS[:2], SAMPLING[sampling])
    assert [c.token_ids for c in done] == [c.token_ids for c in expected]
    assert done[0].stats.guesses < 4
    stop = word_tokenizer().decode(done[0].token_ids[6:7])
    params = dataclasses.replace(SAMPLING[sampling], stop=(stop,))
    assert [c.text for c in ours.generate(PROMPTS[:1], params)] == [
        c.text for c in plain.generate(PROMPTS[:1], params)
    ]


@pytest.mark.parametrize("sampling", SAMPLING)
def test_speculation_over_an_approximate_index_writes_what_plain_search_in_it_writes(
    tmp_path: Path, sampling: str
) -> None:
    store = build_datastore(engine("none"), TEXTS, tmp_path, index="hnsw", window=17)
    plain = KnnLM(engine("none"), store, mode="sequential", config=CONFIG)
    ours = KnnLM(engine("none"), store, config=CONFIG, speculation=PARTS[-1])
    done = ours.generate(PROMPTS[:2], SAMPLING[sampling])
    assert [c.token_ids for c in done] == [
        c.token_ids for c in plain.generate(PROMPTS[:2], SAMPLING[sampling])
    ]


@pytest.mark.parametrize("index", ["hnsw", "ivfpq"])
def test_an_index_that_finds_more_where_more_is_asked_for_writes_the_same(tmp_path: Path, index: str) -> None:
    """Verifications bring more neighbours than plain KNN-LM asks for."""
    rng = np.random.default_rng(0)
    keys, tokens = rng.standard_normal((3000, 32)), rng.integers(FIRST_WORD, VOCAB, 3000)
    careless = IndexConfig(m=4, ef_construction=8, ef_search=1, train_at=1000, code_bytes=2, nprobe=2)
    store = Datastore.write(tmp_path, [(keys, tokens)], 3000, index=index, config=careless)
    config = KnnConfig(k=2, weight=0.9, bandwidth=10.0)
    for sampling in SAMPLING.values():
        plain = KnnLM(engine("none"), store, mode="sequential", config=config).generate(PROMPTS[:1], sampling)
        for parts in (PARTS[0], PARTS[-1]):
            ours = KnnLM(engine("none"), store, config=config, speculation=parts)
            assert ours.generate(PROMPTS[:1], sampling)[0].token_ids == plain[0].token_ids


def test_neighbours_change_what_is_written(datastore: Datastore) -> None:
    params = SamplingParams(max_new_tokens=12)
    with_them = KnnLM(engine("none"), datastore, config=CONFIG).generate(PROMPTS, params)
    without = KnnLM(engine("none"), datastore, config=KnnConfig(weight=0.0)).generate(PROMPTS, params)
    assert [c.token_ids for c in with_them] != [c.token_ids for c in without]


@pytest.mark.parametrize("index", ["hnsw", "ivfpq"])
def test_approximate_indexes_are_kept_on_disk_and_answer_alike_in_batches(tmp_path: Path, index: str) -> None:
    keys = np.random.default_rng(0).standard_normal((3000, 8))
    config = IndexConfig(train_at=2000)
    Datastore.write(tmp_path, [(keys[:1000], np.arange(1000)), (keys[1000:], np.arange(2000))], 3000, index=index,
                    config=config)  # fmt: skip
    store = Datastore(tmp_path)
    together = store.search(keys[:4].astype(np.float32), 5)
    for query, found in zip(keys[:4].astype(np.float32), together, strict=True):
        (alone,) = store.search(query[None], 5)
        assert np.array_equal(alone.labels, found.labels)
    assert sum(i in found.labels for i, found in enumerate(together)) >= 3


def test_a_datastore_that_is_written_again_serves_its_readers_on(tmp_path: Path) -> None:
    """And one that cannot be written, or not wholly, leaves what is there."""
    keys = np.random.default_rng(0).normal(size=(300, 8))
    before = Datastore.write(tmp_path, [(keys, np.arange(300))], 300)
    with pytest.raises(ValueError, match="cannot train ivfpq"):
        Datastore.write(tmp_path, [(keys, np.arange(300))], 300, index="ivfpq")
    with pytest.raises(ValueError, match="count them again"):
        Datastore.write(tmp_path, [(keys[:5], np.arange(5))], 300)
    assert len(Datastore(tmp_path)) == 300
    after = Datastore.write(tmp_path, [(keys[:10], np.arange(10))], 10)
    (neighbours,) = before.search(keys[200:201].astype(np.float32), 1)
    assert (neighbours.tokens.tolist(), len(after)) == ([200], 10)
    assert {file.name for file in tmp_path.iterdir()} == {"datastore.json", "keys.npy", "tokens.npy"}


@pytest.mark.parametrize("damage", [None, b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_a_damaged_datastore_is_named(tmp_path: Path, damage: bytes | None) -> None:
    Datastore.write(tmp_path, [(np.ones((3, 4)), np.arange(3))], 3)
    (tmp_path / "keys.npy").unlink()
    if damage is not None:
        (tmp_path / "keys.npy").write_bytes(damage)
    with pytest.raises(ValueError, match=r"keys\.npy"):
        Datastore(tmp_path)


def test_what_cannot_be_a_datastore_is_refused(tmp_path: Path, datastore: Datastore) -> None:
    with pytest.raises(ValueError, match="holds no datastore"):
        Datastore(tmp_path)
    with pytest.raises(ValueError, match="other than the 5 entries"):
        Datastore.write(tmp_path, [(np.ones((3, 4)), np.arange(3))], 5)
    with pytest.raises(ValueError, match="k=1025"):
        KnnConfig(k=1025)
    small = Datastore.write(tmp_path, [(np.ones((3, 4)), np.arange(3))], 3)
    with pytest.raises(ValueError, match="4 dimensions, the model's states 32"):
        KnnLM(engine("none"), small)


def test_an_error_of_the_datastore_reaches_the_caller(
    datastore: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(queries: np.ndarray, k: int) -> list[Neighbours]:
        raise OSError("the disk is gone")

    monkeypatch.setattr(datastore, "search", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        KnnLM(engine("none"), datastore).generate(PROMPTS[:1])
    assert not engine("none").running
