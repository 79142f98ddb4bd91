"""Flat, HNSW and IVF-PQ: the choice is stated, tombstones and growth are taken care of, files keep the kind."""

from __future__ import annotations

import numpy as np
import pytest

from retrieval.storage.metric import Metric
from retrieval.storage.vectors import IndexConfig, VectorIndex

from .conftest import Opener
from .counting import random_matrix

SMALL = IndexConfig(
    train_at=400, flat_until=100, hnsw_until=300, code_bytes=8, nprobe=64, m=8, ef_construction=40
)
KINDS = ["flat", "hnsw", "ivfpq"]


def recall(found: list[list[str]], best: np.ndarray) -> float:
    return float(
        np.mean([len({*ids} & {*map(str, row)}) / len(row) for ids, row in zip(found, best, strict=True)])
    )


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_finds_adds_deletes_and_comes_back(opened: Opener, kind: str, metric: str) -> None:
    matrix = random_matrix(600)
    store = opened(index=kind, metric=metric, config=SMALL)
    names = [str(i) for i in range(600)]
    store.add_vectors(names[:500], None, matrix[:500], ids=names[:500])
    store.add_vectors(names[500:], None, matrix[500:], ids=names[500:])
    store.delete(names[:50])
    again = opened(index=kind, metric=metric, config=SMALL)
    for one in (store, again):
        vectors = one.metric.prepared(matrix, 16)
        near = (
            vectors[::60] @ vectors.T
            if metric == "cosine"
            else -((vectors[::60, None] - vectors[None]) ** 2).sum(-1)
        )
        near[:, :50] = -np.inf
        found = one.search_vectors(matrix[::60], k=5)
        assert recall(found.ids, np.argsort(-near)[:, :5]) >= (1.0 if kind == "flat" else 0.8)
        assert not {*names[:50]} & {name for ids in found.ids for name in ids}
        assert kind in one.index_choice
        np.testing.assert_allclose(one.vectors(names[50:99]), vectors[50:99], rtol=1e-6)
        first = names.index(found.ids[1][0])
        exact = one.metric.scores(vectors[60], vectors[first : first + 1])
        np.testing.assert_allclose(found.scores[1][0], exact[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_filters_and_ids_reach_every_passage_of_every_kind(opened: Opener, kind: str) -> None:
    store = opened(index=kind, config=SMALL)
    metadatas = [{"even": i % 2 == 0} for i in range(500)]
    ids = store.add_vectors([str(i) for i in range(500)], metadatas, random_matrix(500))
    found = store.similarity_search_by_vector([1.0] * 16, k=250, filter={"even": True})
    assert {d.id for d in found} == {*ids[::2]}
    (hits,) = store.search_among(random_matrix(1), ids[7:10], k=9).ids
    assert {*hits} == {*ids[7:10]}


def test_auto_changes_its_index_as_it_grows_and_says_so(opened: Opener) -> None:
    store = opened(index="auto", config=SMALL)
    matrix = random_matrix(450)
    for start, stop, kind in ((0, 100, "flat (exact)"), (100, 250, "hnsw"), (250, 450, "ivfpq")):
        names = [str(i) for i in range(start, stop)]
        store.add_vectors(names, None, matrix[start:stop], ids=names)
        assert store.index_choice.startswith(kind)
        assert kind.startswith(store._collection._view.index.kind)  # type: ignore[union-attr]
        assert [ids[0] for ids in store.search_vectors(matrix[start:stop:30], k=1).ids] == names[::30]
    assert opened(config=SMALL).index_choice.startswith("ivfpq")


def test_ivfpq_is_exact_until_it_can_be_trained(opened: Opener) -> None:
    store = opened(index="ivfpq", config=SMALL)
    store.add_vectors(["a", "b"], None, random_matrix(2))
    assert store.index_choice == "flat (exact) until 400 passages can train ivfpq"
    assert len(store.search_vectors(random_matrix(1), k=5).ids[0]) == 2


def test_tombstones_past_a_share_rebuild_the_graph(opened: Opener) -> None:
    store = opened(index="hnsw", config=SMALL)
    names = [str(i) for i in range(300)]
    store.add_vectors(names, None, random_matrix(300), ids=names)
    store.delete(names[:30])
    index = store._collection._view.index
    assert index is not None
    assert (len(index.dead), index.faiss.ntotal) == (30, 300)
    assert len(store.search_vectors(random_matrix(1), k=300).ids[0]) == 270
    store.delete(names[30:90])
    index = store._collection._view.index
    assert index is not None
    assert (len(index.dead), index.faiss.ntotal) == (0, 210)
    assert set(store.search_vectors(random_matrix(1), k=300).ids[0]) == set(names[90:])


def test_a_store_emptied_and_filled_again_works_in_every_kind(opened: Opener) -> None:
    for kind in KINDS:
        store = opened(name=kind, index=kind, config=SMALL)
        for seed in (0, 1):
            names = [f"{seed}-{i}" for i in range(450)]
            store.add_vectors(names, None, random_matrix(450, seed=seed), ids=names)
            assert store.search_vectors(random_matrix(450, seed=seed)[:3], k=1).ids == [
                [n] for n in names[:3]
            ]
            store.delete()
            assert store.search_vectors(random_matrix(1), k=1).ids == [[]]


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_ivfpq_probes_the_same_clusters_for_a_query_alone_and_among_others(metric: str) -> None:
    """Each query stands midway between two centroids, so that a rounding error decides."""
    index = VectorIndex("ivfpq", Metric(metric), 32, IndexConfig(nprobe=1, code_bytes=8))
    matrix = index.metric.prepared(random_matrix(2000, 32), 32)
    index.train(matrix)
    index.add(np.arange(2000), matrix)
    centroids = index.faiss.quantizer.reconstruct_n(0, index.faiss.nlist)
    apart = ((centroids[:, None] - centroids[None]) ** 2).sum(-1) + 1e9 * np.eye(len(centroids))
    nearest = centroids[apart.argmin(1)]
    queries = (centroids + nearest) / 2
    if metric == "cosine":
        across = centroids - nearest
        share = (queries * across).sum(1) / (across * across).sum(1)
        queries -= share[:, None] * across
    together = index.candidates(queries, 10)
    alone = [index.candidates(query[None], 10)[0] for query in queries]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one, other)
