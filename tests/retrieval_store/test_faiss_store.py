"""What a user of the store may count on, whatever lies beneath."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
from langchain_core.documents import Document

from retrieval import FaissStore
from retrieval.ids import content_id
from retrieval.storage.metric import Metric

from .conftest import Opener
from .counting import LetterCounts, random_matrix


def test_an_empty_store_answers_with_nothing(opened: Opener) -> None:
    store = opened(LetterCounts())
    assert len(store) == 0
    assert store.similarity_search("a", k=3) == []
    assert store.max_marginal_relevance_search("a") == []
    assert store.similarity_search("a", filter={"x": 1}) == []
    assert store.search_batch(["a", "b"]).ids == [[], []]
    assert store.search_batch([]).ids == []
    assert store.add_texts([]) == []
    assert store.delete(["nobody"]) is True
    assert list(store.documents()) == []
    assert store.vectors([]).shape[0] == 0


def test_adding_twice_is_adding_once_and_embeds_once(opened: Opener) -> None:
    embedding = LetterCounts()
    store = opened(embedding)
    first = store.add_texts(["one", "two", "one"], [{"n": 1}, {}, {"n": 1}])
    assert store.add_texts(["one", "two"], [{"n": 1}, {}]) == first[:2]
    assert first[0] == first[2] == content_id("one", {"n": 1})
    assert uuid.UUID(first[0]).version == 5
    assert len(store) == 2
    assert sorted(embedding.seen) == ["one", "two"]
    assert store.generation == 1  # the second time changed nothing


def test_the_same_sentence_in_two_documents_is_two_passages(opened: Opener) -> None:
    store = opened(LetterCounts())
    ids = store.add_texts(["same", "same"], [{"source": "a"}, {"source": "b"}])
    store.delete(ids[:1])
    assert [found.metadata for found in store.similarity_search("same")] == [{"source": "b"}]


def test_metadata_order_does_not_change_an_id() -> None:
    assert content_id("t", {"a": 1, "b": [1, {"d": 1, "c": 2}]}) == content_id(
        "t", {"b": [1, {"c": 2, "d": 1}], "a": 1}
    )
    assert content_id("t", {"a": 1}) != content_id("t", {"a": "1"})


def test_of_repeated_ids_the_last_wins(opened: Opener) -> None:
    store = opened(LetterCounts())
    assert store.add_texts(["aaa", "bbb"], ids=["x", "x"]) == ["x", "x"]
    store.add_vectors(["ccc", "ddd"], None, random_matrix(2, 26), ids=["y", "y"])
    assert [d.page_content for d in store.get_by_ids(["x", "y", "x"])] == ["bbb", "ddd"]
    assert len(store) == 2


def test_deleted_and_added_again_is_there_once(opened: Opener) -> None:
    store = opened(LetterCounts())
    for _ in range(3):
        (name,) = store.add_texts(["hello"])
        store.delete([name, "nobody"])
    assert store.similarity_search("hello") == []
    store.add_texts(["hello"])
    assert [d.id for d in store.similarity_search("hello", k=9)] == [name]
    again = opened(LetterCounts())
    assert again.ids_by_position == [name]


def test_everything_is_deleted_without_ids(opened: Opener) -> None:
    store = opened(LetterCounts())
    store.add_texts(["a", "b"])
    store.delete()
    assert len(store) == len(opened(LetterCounts())) == 0
    store.add_texts(["c"])
    assert [d.page_content for d in store.similarity_search("c")] == ["c"]


@pytest.mark.parametrize(
    "text", ["", "x" * 3_000_000, "naïve 日本語 🦆 \u202e", "a\0b\0", "'; DROP TABLE passages; --"]
)
def test_any_text_comes_back_as_it_was(opened: Opener, text: str) -> None:
    metadata = {"key with 'quotes'": text[:50], "nested": {"list": [1, 2.5, None, True]}, "☃": "\n"}
    store = opened(LetterCounts())
    (name,) = store.add_texts([text], [metadata])
    expected = [Document(id=name, page_content=text, metadata=metadata)]
    assert store.get_by_ids([name]) == store.similarity_search("abc") == expected
    assert opened(LetterCounts()).get_by_ids([name]) == expected


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
def test_search_finds_what_comparing_with_everything_finds(opened: Opener, metric: str) -> None:
    matrix, queries = random_matrix(300), random_matrix(7, seed=1)
    store = opened(metric=metric)
    ids = store.add_vectors([str(i) for i in range(300)], None, matrix)
    if metric == "cosine":
        matrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    near = queries @ matrix.T if metric != "l2" else -((queries[:, None] - matrix[None]) ** 2).sum(-1)
    hits = store.search_vectors(queries, k=10)
    for row, found, scores in zip(near, hits.ids, hits.scores, strict=True):
        best = np.argsort(-row)[:10]
        assert found == [ids[i] for i in best]
        np.testing.assert_allclose(scores if metric != "l2" else -scores, row[best], rtol=1e-4)
    np.testing.assert_allclose(store.vectors(ids[5:9]), matrix[5:9], rtol=1e-6)


def test_a_batch_answers_what_its_queries_answer_one_by_one_to_the_last_bit(opened: Opener) -> None:
    store = opened()
    ids = store.add_vectors([str(i) for i in range(500)], None, random_matrix(500, 64))
    queries = random_matrix(20, 64, seed=2)
    together = store.search_vectors(queries, k=7)
    for i, query in enumerate(queries):
        alone = store.search_vectors(query[None], k=7)
        assert alone.ids[0] == together.ids[i]
        assert alone.scores[0].tobytes() == together.scores[i].tobytes()
        cached = store.search_among(query[None], [*ids[:40], *together.ids[i], "nobody"], k=7)
        assert cached.ids[0] == together.ids[i]
        assert cached.scores[0].tobytes() == together.scores[i].tobytes()
        prepared = store.metric.prepared(query[None], 64)[0]
        by_hand = store.metric.scores(prepared, store.vectors(together.ids[i]))
        assert by_hand.tobytes() == together.scores[i].tobytes()


def test_equal_scores_stand_in_the_order_of_ids_however_many_there_are(opened: Opener) -> None:
    store = opened()
    names = [f"{i:03}" for i in np.random.default_rng(0).permutation(200)]
    matrix = np.ones((200, 8), dtype=np.float32)
    store.add_vectors(["same"] * 200, [{"n": name} for name in names], matrix, ids=names)
    assert store.search_vectors(np.ones((3, 8)), k=5).ids == [["000", "001", "002", "003", "004"]] * 3
    store.delete(["000", "003"])
    assert store.search_vectors(np.ones((1, 8)), k=3).ids == [["001", "002", "004"]]


def test_k_beyond_the_number_of_passages_gives_all(opened: Opener) -> None:
    store = opened(LetterCounts())
    store.add_texts(["a", "b"])
    assert len(store.similarity_search("a", k=1_000)) == 2
    with pytest.raises(ValueError, match="k is 0"):
        store.similarity_search("a", k=0)


def test_relevance_lies_between_nought_and_one_and_falls_with_distance(opened: Opener) -> None:
    for name in ("cosine", "ip", "l2"):
        store = opened(LetterCounts(), name, metric=name)
        store.add_vectors([str(i) for i in range(40)], None, 5 * random_matrix(40, 26))
        store.add_texts(["abc"])
        found = [r for _, r in store.similarity_search_with_relevance_scores("abc", k=50)]
        assert found == sorted(found, reverse=True)
        assert all(0 <= relevance <= 1 for relevance in found)
        assert found[0] > 0.9


def test_mmr_takes_something_else_before_a_repeat(opened: Opener) -> None:
    store = opened(LetterCounts())
    store.add_texts(["aaab", "aaab ", "ab", "zzzz"])
    nearest = [d.page_content.strip() for d in store.similarity_search("aaab", k=2)]
    varied = [
        d.page_content.strip() for d in store.max_marginal_relevance_search("aaab", k=2, lambda_mult=0.3)
    ]
    assert nearest == ["aaab", "aaab"]
    assert varied[0] == "aaab" != varied[1]


def test_vectors_that_cannot_be_are_refused(opened: Opener) -> None:
    store = opened()
    with pytest.raises(ValueError, match="vector 1 has a value that is not finite"):
        store.add_vectors(["a", "b"], None, [[1.0, 2.0], [float("nan"), 1.0]])
    store.add_vectors(["a"], None, [[1.0, 2.0]])
    for wrong in ([[1.0, 2.0, 3.0]], [1.0, 2.0]):
        with pytest.raises(ValueError, match=r"dimensions|shape"):
            store.add_vectors(["b"], None, wrong)
        with pytest.raises(ValueError, match=r"dimensions|shape"):
            store.search_vectors(wrong)
    with pytest.raises(ValueError, match="not finite"):
        store.search_vectors([[float("inf"), 1.0]])
    with pytest.raises(ValueError, match="2 vectors for 1 texts"):
        store.add_vectors(["b"], None, [[1.0, 2.0]] * 2)
    with pytest.raises(ValueError, match="1 ids for 2 texts"):
        store.add_vectors(["b", "c"], None, [[1.0, 2.0]] * 2, ids=["x"])
    assert len(store) == len(opened()) == 1


@pytest.mark.parametrize("metadata", [{1: "a"}, {"a": object()}, {"a": float("nan")}, {"a": {1, 2}}])
def test_metadata_that_is_no_json_is_refused_and_nothing_is_added(opened: Opener, metadata: dict) -> None:
    store = opened(LetterCounts())
    with pytest.raises(ValueError, match="metadata"):
        store.add_texts(["a", "b"], [{}, metadata])
    with pytest.raises(ValueError, match="surrogates"):
        store.add_texts(["a", "\ud800"])
    assert len(store) == 0


def test_a_zero_vector_is_unlike_everything_under_cosine(opened: Opener) -> None:
    store = opened(LetterCounts())
    store.add_texts(["abc", "..."])
    scored = store.similarity_search_with_score("abc", k=2)
    assert [(d.page_content, round(score, 5)) for d, score in scored] == [("abc", 1.0), ("...", 0.0)]


def test_a_transaction_is_all_or_nothing(opened: Opener) -> None:
    store = opened(LetterCounts())
    (kept,) = store.add_texts(["kept"])

    def failing() -> None:
        with store.transaction():
            store.delete([kept])
            store.add_texts(["new"])
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert store.ids_by_position == opened(LetterCounts()).ids_by_position == [kept]
    with store.transaction():
        store.add_texts(["one"], ids=["1"])
        store.add_texts(["two"], ids=["1"])
        store.delete([kept])
        assert store.ids_by_position == [kept]
    assert store.generation == 2
    assert [d.page_content for d in store.documents()] == ["two"]


def test_a_store_is_opened_only_as_it_was_made(opened: Opener) -> None:
    opened(LetterCounts(), metric="l2").add_texts(["a"])
    assert opened(LetterCounts()).metric == Metric("l2")
    assert opened().similarity_search_by_vector([1.0] * 26)
    for options, said in [
        ({"metric": "cosine"}, "metric 'l2', not 'cosine'"),
        ({"index": "hnsw"}, "index 'flat', not 'hnsw'"),
        ({"embedding": LetterCounts("other")}, "embedding 'letters', not 'other'"),
        ({"index": "ball"}, "index 'ball' is unknown"),
    ]:
        with pytest.raises(ValueError, match=said):
            opened(**options)
    with pytest.raises(ValueError, match="no embedding"):
        opened().similarity_search("a")
    with pytest.raises(ValueError, match="'kk' is unknown"):
        opened(LetterCounts()).similarity_search("a", kk=3)


def test_a_closed_store_says_so(opened: Opener) -> None:
    store = opened(LetterCounts())
    store.add_texts(["a"])
    store.close()
    with pytest.raises(ValueError, match="was closed"):
        store.similarity_search("a")
    with pytest.raises(ValueError, match="was closed"):
        store.add_texts(["b"])


def test_a_store_without_a_folder_goes_with_its_object() -> None:
    store = FaissStore.from_texts(["a", "b"], LetterCounts(), durable=False)
    folder = store.path
    assert len(store) == 2
    assert folder.exists()
    store.close()
    del store
    assert not folder.exists()


async def test_async_searches_run_side_by_side_and_leave_the_loop_free(opened: Opener) -> None:
    class Slow(LetterCounts):
        def embed_query(self, text: str) -> list[float]:
            arrived.wait(timeout=30)  # passes only when all are here at once
            return super().embed_query(text)

    arrived = threading.Barrier(3)
    store = opened(LetterCounts("slow"))
    await store.aadd_texts(["a", "b"])
    slow = opened(Slow("slow"))
    ticks = []

    async def tick() -> None:
        while len(ticks) < 3:
            ticks.append(time.monotonic())
            await asyncio.sleep(0)

    *found, _ = await asyncio.gather(*(slow.asimilarity_search(q, k=1) for q in "aba"), tick())
    assert [d[0].page_content for d in found] == ["a", "b", "a"]
    assert len(ticks) == 3


def test_many_threads_read_while_one_writes(opened: Opener) -> None:
    store = opened(LetterCounts())
    store.add_texts(["base"], ids=["base"])
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            found = store.similarity_search_with_score("base", k=3)
            if not found or found[0][0].id != "base" or len({d.id for d, _ in found}) != len(found):
                wrong.append(found)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(15):
        store.add_texts([f"zz{i}", f"yy{i}"], ids=[f"z{i}", f"y{i}"])
        store.delete([f"z{i}"])
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(store) == 16


def test_what_a_transaction_took_away_can_be_added_again_in_it(opened: Opener) -> None:
    store = opened(LetterCounts())
    store.add_texts(["a"], ids=["1"])
    with store.transaction():
        store.delete(["1"])
        store.add_texts(["a"], ids=["1"])
    assert [d.page_content for d in store.get_by_ids(["1"])] == ["a"]
    with store.transaction():
        store.add_texts(["b"], ids=["1"])
        store.add_texts(["a"], ids=["1"])
    assert [d.page_content for d in store.get_by_ids(["1"])] == ["a"]
    with store.transaction():
        store.add_texts(["c"], ids=["2"])
        store.delete()
    assert len(store) == 0


def test_what_another_process_took_away_is_added_again(tmp_path: Path) -> None:
    first = FaissStore(LetterCounts(), tmp_path)
    first.add_texts(["a"], ids=["1"])
    second = FaissStore(LetterCounts(), tmp_path)
    assert second.get_by_ids(["1"])  # what it knows from now on
    first.delete(["1"])
    second.add_texts(["a"], ids=["1"])
    first.reload()
    assert [d.page_content for d in first.get_by_ids(["1"])] == ["a"]
