"""Errors reach the caller, stopped texts leave nothing behind, and what was shown is never taken back."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from apps.ralm import RetrievalLM, SpeculationConfig
from apps.ralm.retrievers import Query
from core import SamplingParams
from tests.ralm.corpora import GREEDY, PROMPTS, SAMPLED, Scripted, documents, engine, sources

NAMES = [document.id or "" for document in documents()]
GOING_ON = SpeculationConfig(scheduler=False, steps=2)


class Raising(Scripted):
    """Fails at its n-th call."""

    def __init__(self, at: int, delay: float = 0.0) -> None:
        super().__init__(lambda n: [NAMES[n % 3]], lambda n, names: NAMES[n % 3], delay)
        self.at = at

    def search(self, queries: Sequence[Query], k: int) -> list[list[str]]:
        found = super().search(queries, k)
        if len(self.calls) > self.at:
            raise ConnectionError("the corpus is gone")
        return found


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> object:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("verification")]


@pytest.mark.parametrize("delay", [0.0, 0.05])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_error_of_the_retriever_reaches_the_caller(at: int, delay: float) -> None:
    model = RetrievalLM(engine(), Raising(at, delay), speculation=GOING_ON)
    with pytest.raises(ConnectionError, match="the corpus is gone"):
        model.generate(PROMPTS, GREEDY)
    assert not engine().running


def test_an_error_of_the_model_reaches_the_caller_while_the_retriever_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Scripted(lambda n: [NAMES[0]], delay=0.05)
    model = RetrievalLM(engine(), source, speculation=GOING_ON)
    inner, calls = engine().generate, list[int]()

    def fail(*given: object) -> object:
        calls.append(1)
        if len(calls) > 3:
            raise MemoryError("no room")
        return inner(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(engine(), "generate", fail)
    with pytest.raises(MemoryError, match="no room"):
        model.generate(PROMPTS[:1], GREEDY)


def test_a_stopped_stream_leaves_no_thread_and_no_row() -> None:
    source = Scripted(lambda n: [NAMES[n % 3]], lambda n, names: NAMES[n % 3], delay=0.01)
    stream = RetrievalLM(engine(), source, speculation=GOING_ON).stream(PROMPTS[0], GREEDY)
    assert next(stream)
    stream.close()
    assert not engine().running


@pytest.mark.parametrize("params", [GREEDY, SAMPLED])
def test_the_pieces_of_a_stream_are_the_text(params: SamplingParams) -> None:
    """Guesses are often wrong here: nothing is shown before it is settled."""
    source = Scripted(lambda n: [NAMES[n % 4]], lambda n, names: NAMES[n % 3])
    model = RetrievalLM(engine(), source, speculation=GOING_ON)
    (whole,) = model.generate(PROMPTS[:1], params)
    pieces = list(model.stream(PROMPTS[0], params))
    assert "".join(pieces) == whole.text
    assert len(pieces) > 2


def test_the_text_goes_on_while_a_verification_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second answer comes only when two more stretches are written; who waited for it would wait in vain."""
    inner, stretches, written = engine().generate, list[int](), threading.Event()

    class Waiting(Scripted):
        def search(self, queries: Sequence[Query], k: int) -> list[list[str]]:
            found = super().search(queries, k)
            if len(self.calls) == 2:
                assert written.wait(timeout=60), "nothing was written meanwhile"
            return found

    def counted(*given: object) -> object:
        stretches.append(1)
        if len(stretches) == 3:
            written.set()
        return inner(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(engine(), "generate", counted)
    config = SpeculationConfig(scheduler=False, steps=1)
    model = RetrievalLM(engine(), Waiting(lambda n: [NAMES[0]]), speculation=config)
    (done,) = model.generate(PROMPTS[:1], GREEDY)
    assert len(done.token_ids) == GREEDY.max_new_tokens
    assert done.stats.calls < done.stats.retrievals == 4


class Unscored(BaseRetriever):
    """Returns passages and will not say why."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [documents()[len(query) % 40], documents()[3]]


def test_a_retriever_without_scores_is_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match=r"cannot score a passage by itself.*give score="):
        RetrievalLM(engine(), Unscored())


def test_a_retriever_with_a_score_given_is_taken() -> None:
    def score(query: str, texts: Sequence[str]) -> list[float]:
        return [-len(text) for text in texts]

    plain = RetrievalLM(engine(), Unscored(), mode="sequential", score=score).generate(PROMPTS[:1], SAMPLED)
    ours = RetrievalLM(engine(), Unscored(), score=score).generate(PROMPTS[:1], SAMPLED)
    assert plain[0].token_ids == ours[0].token_ids


def test_what_is_no_retriever_is_refused() -> None:
    with pytest.raises(ValueError, match="str is no retriever"):
        RetrievalLM(engine(), "a path")


def test_a_prompt_that_leaves_no_room_for_a_document_is_refused_with_the_numbers() -> None:
    with pytest.raises(ValueError, match="leave no room for a document in a context of 256"):
        RetrievalLM(engine(), sources()["flat"]).generate(["w9 " * 250], GREEDY)


@pytest.mark.parametrize("kind", ["flat", "bm25"])
def test_a_cache_holds_no_more_than_its_size_and_still_ranks_as_the_retriever(kind: str) -> None:
    from apps.ralm.retrievers import retriever_for

    retriever = retriever_for(sources()[kind])
    cache = retriever.cache()
    cache.capacity = 8
    for document in documents()[:12]:
        (query,) = retriever.encode([document.page_content])
        (names,) = retriever.search([query], 5)
        cache.add(names)
        assert len(cache) <= 8
        # The best of the newest answer is never given up.
        assert cache.best(query) == names[0]
    (query,) = retriever.encode([documents()[20].page_content])
    (ranked,) = retriever.search([query], 40)
    expected = next((name for name in ranked if name in cache), None)
    assert cache.best(query) == expected
