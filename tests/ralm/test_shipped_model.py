"""The shipped chat model writes about the handbook, guessing what retrieval will say and not: token for token alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.ralm import KnnConfig, KnnLM, RetrievalConfig, RetrievalLM, SpeculationConfig, build_datastore
from apps.ralm.opening import SHIPPED_MODEL
from core import Engine, SamplingParams
from retrieval import Bm25Index, FaissStore
from retrieval.storage.vectors import IndexConfig
from tests.ralm.corpora import WordVectors

pytestmark = pytest.mark.skipif(
    not SHIPPED_MODEL.is_dir(), reason=f"{'/'.join(SHIPPED_MODEL.parts[-3:])} is not in this copy"
)
HANDBOOK = Path("data/handbook")
PROMPTS = [
    "Question: What is speculative decoding?\nAnswer:",
    "A flat index is exact, and HNSW",
    "A batch job that was killed goes on",
]
SAMPLING = {
    "greedy": SamplingParams(max_new_tokens=16),
    "sampled": SamplingParams(max_new_tokens=16, temperature=0.9, top_p=0.95, seed=3),
}
CONFIG = RetrievalConfig(document_tokens=48, query_tokens=12)
#: With the scheduler nothing may be worth guessing here; without it everything is guessed.
SPECULATIONS = [SpeculationConfig(), SpeculationConfig(scheduler=False)]


@pytest.fixture(scope="module")
def shipped() -> Engine:
    """Without its end token, so that texts are long enough for several documents."""
    engine = Engine.from_pretrained(str(SHIPPED_MODEL), "copy", "cpu")
    engine.target.eos_token_ids = frozenset()
    return engine


def passages() -> list[str]:
    """The handbook's paragraphs."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(HANDBOOK.glob("*.md"))]
    return [part for text in texts for part in text.split("\n\n") if len(part) > 60]


def source(kind: str) -> Any:
    ids = [f"p{i:03}" for i in range(len(passages()))]
    if kind == "bm25":
        return Bm25Index.from_texts(passages(), ids=ids)
    careless = IndexConfig(m=2, ef_construction=2, ef_search=1)
    store = FaissStore(WordVectors(), index=kind, config=careless, durable=False)
    store.add_texts(passages(), ids=ids)
    return store


@pytest.mark.parametrize("kind", ["flat", "hnsw", "bm25"])
def test_texts_and_documents_are_those_of_plain_retrieval(shipped: Engine, kind: str) -> None:
    retriever = source(kind)
    for params in SAMPLING.values():
        plain = RetrievalLM(shipped, retriever, mode="sequential", config=CONFIG).generate(PROMPTS, params)
        assert len({name for done in plain for _, name in done.documents}) > 2
        for speculation in SPECULATIONS:
            ours = RetrievalLM(shipped, retriever, config=CONFIG, speculation=speculation)
            done = ours.generate(PROMPTS, params)
            assert [(c.token_ids, c.text, c.documents) for c in done] == [
                (c.token_ids, c.text, c.documents) for c in plain
            ]
        assert done[0].stats.guesses > 2


def test_texts_are_those_of_plain_knn_lm(shipped: Engine, tmp_path: Path) -> None:
    datastore = build_datastore(shipped, passages()[:12], tmp_path)
    config = KnnConfig(k=4, weight=0.5, bandwidth=float(datastore.dimension))
    for params in SAMPLING.values():
        plain = KnnLM(shipped, datastore, mode="sequential", config=config).generate(PROMPTS[:1], params)
        for speculation in SPECULATIONS:
            ours = KnnLM(shipped, datastore, config=config, speculation=speculation)
            done = ours.generate(PROMPTS[:1], params)
            assert [(c.token_ids, c.text) for c in done] == [(c.token_ids, c.text) for c in plain]
        assert done[0].stats.guesses > 2
