"""BM25 by the formula, its cache scores to the last bit, saved and opened; fusion by reciprocal rank."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

import retrieval.words
from retrieval import Bm25Index, FaissStore, HybridRetriever
from retrieval.ids import content_id
from retrieval.words import words

from .counting import LetterCounts

RANDOM = np.random.default_rng(0)
VOCABULARY = [f"w{chr(97 + i)}{chr(97 + j)}" for i in range(8) for j in range(8)]
TEXTS = [" ".join(RANDOM.choice(VOCABULARY, size=RANDOM.integers(1, 30))) for _ in range(200)]
HOLDERS = Counter(term for text in TEXTS for term in set(text.split()))
QUERIES = [" ".join(RANDOM.choice(VOCABULARY, size=6)) for _ in range(10)]


@pytest.fixture(scope="module")
def index() -> Bm25Index:
    return Bm25Index.from_texts(TEXTS, [{"n": i} for i in range(200)], language=None)


def by_formula(query: str, text: str) -> float:
    average = sum(len(text.split()) for text in TEXTS) / len(TEXTS)
    counts, length, score = Counter(text.split()), len(text.split()), 0.0
    for term in query.split():
        if counts[term]:
            rarity = math.log(1 + (len(TEXTS) - HOLDERS[term] + 0.5) / (HOLDERS[term] + 0.5))
            score += rarity * counts[term] / (counts[term] + 1.5 * (1 - 0.75 + 0.75 * length / average))
    return score


def test_scores_are_those_of_the_formula(index: Bm25Index) -> None:
    for query in QUERIES:
        expected = [by_formula(query, text) for text in TEXTS]
        np.testing.assert_allclose(index.scores(query, index.ids_by_position), expected, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(index.score_texts(query, TEXTS), expected, rtol=1e-6)


def test_a_cache_is_scored_as_the_search_scores_to_the_last_bit(index: Bm25Index) -> None:
    hits = index.search_batch(QUERIES, k=200)
    for query, ids, scores in zip(QUERIES, *hits, strict=True):
        assert index.scores(query, ids).tobytes() == scores.tobytes()
        assert list(scores) == sorted(scores, reverse=True)
        rest = [name for name in index.ids_by_position if name not in ids]
        assert not index.scores(query, rest).any()
        assert index.search_batch([query], k=5).ids[0] == ids[:5]


def test_equal_scores_stand_in_the_order_of_ids() -> None:
    ids = [f"{i:02}" for i in RANDOM.permutation(50)]
    index = Bm25Index.from_texts(["the same words"] * 50, ids=ids)
    assert index.search_batch(["words"], k=3).ids == [["00", "01", "02"]]


def test_statistics_are_the_corpus_s(index: Bm25Index) -> None:
    assert index.statistics.num_passages == len(index) == 200
    assert index.statistics.average_length == pytest.approx(np.mean([len(text.split()) for text in TEXTS]))
    assert index.document_frequency("wab") == sum("wab" in text.split() for text in TEXTS)
    assert index.document_frequency("nowhere") == 0


def test_a_saved_index_answers_the_same_from_its_memory_map(index: Bm25Index, tmp_path: Path) -> None:
    index.save(tmp_path)
    again = Bm25Index(path=tmp_path, k=7)
    assert isinstance(again._terms.ranked.scores["data"], np.memmap)
    assert again.ids_by_position == index.ids_by_position
    assert again.language is None
    for query in QUERIES:
        assert again.invoke(query) == index.invoke(query, k=7)
    before = again.invoke(QUERIES[0])
    Bm25Index.from_texts(["replaced"], path=tmp_path)
    assert again.invoke(QUERIES[0]) == before  # whoever has it open reads on
    assert [d.page_content for d in Bm25Index(path=tmp_path).invoke("replace")] == ["replaced"]
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1


@pytest.mark.parametrize("texts", [[], ["", "..."], ["the of and"]])
def test_a_corpus_without_words_answers_with_nothing(tmp_path: Path, texts: list[str]) -> None:
    built = Bm25Index.from_texts(texts, path=tmp_path)
    for index in (built, Bm25Index(path=tmp_path)):
        assert index.invoke("the words") == []
        assert index.search_batch(["a", ""]).ids == [[], []]
        assert len(index) == len(texts)
        assert not index.scores("words", index.ids_by_position).any()


def test_words_are_stemmed_in_their_language() -> None:
    assert words("The Connections will be connected!", "english") == ["connect", "connect"]
    assert words("Die Häuser", "german") == ["haus"]
    assert words("Öl ist teuer: 3 €", None) == ["öl", "ist", "teuer", "3"]
    with pytest.raises(ValueError, match="language 'klingon' is unknown"):
        words("nuqneH", "klingon")


def test_a_missing_extra_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(retrieval.words, "import_module", absent)
    with pytest.raises(ImportError, match=r"echodraft\[bm25\]"):
        Bm25Index.from_texts(["one"], language=None)


def test_nothing_to_search_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to search"):
        Bm25Index()
    with pytest.raises(ValueError, match="build the index"):
        Bm25Index(path=tmp_path)
    index = Bm25Index.from_texts(["one"])
    with pytest.raises(ValueError, match="'nobody' is not in the index"):
        index.scores("one", ["nobody"])
    for k in (0, -1):
        with pytest.raises(ValueError, match=f"k is {k}"):
            index.invoke("one", k=k)
        with pytest.raises(ValueError, match="greater than or equal to 1"):
            Bm25Index.from_texts(["one"], k=k)


class Fixed(BaseRetriever):
    """Gives what it was given, and knows no k."""

    texts: list[str]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [Document(page_content=text) for text in self.texts]


def test_fusion_adds_weighted_reciprocal_ranks() -> None:
    hybrid = HybridRetriever(
        retrievers=[Fixed(texts=["a", "b", "c"]), Fixed(texts=["c", "d"])], weights=[1, 2]
    )
    scored = {document.page_content: score for document, score in hybrid.search("q")}
    assert scored == pytest.approx({"c": 1 / 63 + 2 / 61, "d": 2 / 62, "a": 1 / 61, "b": 1 / 62})
    assert [d.page_content for d in hybrid.invoke("q", k=2)] == ["c", "d"]


async def test_hybrid_merges_words_and_vectors_by_id_sync_and_async() -> None:
    texts = ["abc def", "xyz", "abc", "def ghi"]
    store = FaissStore.from_texts(texts, LetterCounts(), durable=False)
    hybrid = HybridRetriever(retrievers=[Bm25Index.from_texts(texts), store], k=3)
    found = hybrid.invoke("abc")
    assert len(found) == 3
    assert found[0].page_content == "abc"
    assert {d.id for d in found} <= {content_id(text) for text in texts}
    assert await hybrid.ainvoke("abc") == found
    assert len(await hybrid.ainvoke("abc", k=1)) == 1


def test_a_hybrid_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 item"):
        HybridRetriever(retrievers=[])
    with pytest.raises(ValueError, match="1 weights for 2 retrievers"):
        HybridRetriever(retrievers=[Fixed(texts=[]), Fixed(texts=[])], weights=[1])
    with pytest.raises(ValueError, match="k is 0"):
        HybridRetriever(retrievers=[Fixed(texts=[])]).invoke("q", k=0)
