"""An approximate index finds more where it is asked for more: its answer to a query is one all the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from apps.ralm import RetrievalConfig, RetrievalLM, SpeculationConfig
from apps.ralm.retrievers import retriever_for
from retrieval import FaissStore
from retrieval.storage.vectors import IndexConfig
from tests.ralm.corpora import PROMPTS, SAMPLING, WordVectors, documents, engine

COUNT = 3000
#: So little effort that what is asked for beside the best decides whether the best is found.
CARELESS = IndexConfig(m=4, ef_construction=8, ef_search=1, train_at=1000, code_bytes=2, nprobe=2)
CONFIG = RetrievalConfig(document_tokens=16, query_tokens=6)
KINDS = ["hnsw", "ivfpq"]


@pytest.fixture(scope="module", params=KINDS)
def store(request: pytest.FixtureRequest) -> Iterator[FaissStore]:
    """Random vectors, some of them twice, under texts that stand under many ids."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((COUNT, 16)).astype(np.float32)
    vectors[-COUNT // 10 :] = vectors[: COUNT // 10]
    texts = [document.page_content for document in documents()]
    store = FaissStore(WordVectors(), index=request.param, config=CARELESS, durable=False)
    store.add_vectors(
        [texts[i % len(texts)] for i in range(COUNT)], None, vectors, [f"v{i}" for i in range(COUNT)]
    )
    yield store
    store.close()


def adapted(store: FaissStore, how: str) -> Any:
    """The store itself, and as any vector store of LangChain would come."""
    return retriever_for(store, None if how == "itself" else lambda query, texts: [0.0] * len(texts))


@pytest.mark.parametrize("how", ["itself", "as any other"])
def test_the_answer_is_the_same_however_much_is_asked_for_beside_it(store: FaissStore, how: str) -> None:
    retriever = adapted(store, how)
    queries = retriever.encode([document.page_content for document in documents()])
    answers = [names[0] for names in retriever.search(queries, 1)]
    assert len(set(answers)) > 30
    for k in (2, 20, 21, 100):
        found = retriever.search(queries, k)
        assert [names[0] for names in found] == answers
        assert all(min(k, 30) <= len(set(names)) == len(names) <= k for names in found)


def test_a_batch_finds_what_its_queries_find_one_by_one(store: FaissStore) -> None:
    queries = np.random.default_rng(1).standard_normal((200, 16)).astype(np.float32)
    together = store.search_vectors(queries, 5)
    alone = [store.search_vectors(query[None], 5) for query in queries]
    assert together.ids == [found.ids[0] for found in alone]


@pytest.mark.parametrize(("how", "prefetch"), [("itself", 20), ("itself", 50), ("as any other", 20)])
@pytest.mark.parametrize("sampling", SAMPLING)
def test_speculation_writes_what_plain_retrieval_writes(
    store: FaissStore, sampling: str, how: str, prefetch: int
) -> None:
    def written(**options: Any) -> list[Any]:
        model = RetrievalLM(engine(), adapted(store, how), config=CONFIG, **options)
        done = model.generate(PROMPTS[:2], SAMPLING[sampling])
        return [(one.token_ids, one.documents) for one in done]

    plain = written(mode="sequential")
    assert len({name for _, names in plain for _, name in names}) > 4
    for scheduler in (False, True):
        assert written(speculation=SpeculationConfig(prefetch=prefetch, scheduler=scheduler)) == plain
