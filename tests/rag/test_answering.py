"""Questions find passages that fit, answers cite them, and drafts are copied from them."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from rag_engines import DictatingEngine

from apps.rag import ChatEchodraft
from apps.rag.answering import Answerer
from apps.rag.evaluation import Item, Scores, evaluate
from apps.rag.prompts import ABSTENTION
from apps.rag.sources import Source

SENTENCE = "The budget decides how many nodes are verified."
SOURCES = [
    Source(f"Some words before. {SENTENCE} Some words behind.", "engine.md", "The engine", "The budget",
           start=120, end=200, score=0.81, id="a"),
    Source("Cats sleep for most of the day. " * 4, "cats.md", heading="Sleep", page=3, score=0.4, id="b"),
    Source("Rivers flow to the sea. " * 4, "rivers.md", score=0.3, id="c"),
]  # fmt: skip


class Found:
    """A search that finds what it is given."""

    def __init__(self, sources: list[Source]) -> None:
        self.sources = sources
        self.queries: list[str] = []

    def find(self, query: str, k: int) -> list[Source]:
        self.queries.append(query)
        return self.sources[:k]


def answerer(
    text: str, sources: list[Source] = SOURCES, max_positions: int = 4096, k: int = 5
) -> tuple[Answerer, DictatingEngine, Found]:
    engine, search = DictatingEngine(text, max_positions=max_positions), Found(sources)
    return Answerer(search, ChatEchodraft(engine=engine, max_tokens=100), k=k, way="words"), engine, search


def test_an_answer_cites_its_source_with_document_heading_score_and_offsets() -> None:
    asking, _, _ = answerer(f"{SENTENCE} [1]")
    answer = asking.answer(asking.prepare("What does the budget decide?"))
    assert answer.text == f"{SENTENCE} [1]"
    assert answer.cited == [1]
    told = answer.as_dict()
    assert [source["cited"] for source in told["sources"]] == [True, False, False]
    assert told["sources"][0]["document"] == "engine.md"
    assert told["sources"][0]["start"] == 120
    assert SOURCES[0].place == "engine.md, The budget, characters 120 to 200"
    assert SOURCES[1].place == "cats.md, Sleep, page 3"


def test_drafts_are_copied_from_the_passages_so_that_an_answer_takes_few_passes() -> None:
    asking, engine, _ = answerer(f"{SENTENCE} [1]")
    answer = asking.answer(asking.prepare("What does the budget decide?"), ["an earlier answer"])
    assert answer.stats["tokens_per_call"] > 2.5
    (request,) = engine.asked
    assert request.sources[0] == SOURCES[0].text
    assert "an earlier answer" in request.sources
    assert request.source_weights is not None
    assert list(request.source_weights) == sorted(request.source_weights, reverse=True)


def test_where_nothing_is_found_the_model_is_not_asked() -> None:
    asking, engine, _ = answerer("invented", sources=[])
    answer = asking.answer(asking.prepare("Who discovered radium?"))
    assert answer.text == ABSTENTION
    assert answer.abstained
    assert not engine.asked


def test_the_worst_passages_are_dropped_where_the_context_has_no_room_and_it_is_said() -> None:
    asking, engine, _ = answerer("yes [1]", max_positions=600)
    question = asking.prepare("What does the budget decide?")
    assert question.sources == tuple(SOURCES[:2])
    assert question.dropped == 1
    assert asking.answer(question).text == "yes [1]"
    assert len(engine.asked[0].prompt) + 100 <= 600


def test_a_question_that_leaves_no_room_is_refused_with_the_numbers() -> None:
    asking, _, search = answerer("yes", max_positions=600)
    with pytest.raises(ValueError, match=r"the question has \d+ tokens, but the model reads 500"):
        asking.prepare("why " * 300)
    assert not search.queries
    with pytest.raises(ValueError, match="question and best passage have"):
        asking.prepare("why " * 90)


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_an_empty_question_is_refused(text: str) -> None:
    asking, _, _ = answerer("yes")
    with pytest.raises(ValueError, match="empty"):
        asking.prepare(text)


def test_a_follow_up_is_looked_up_with_the_words_of_the_question_before() -> None:
    asking, _, search = answerer("yes")
    question = asking.prepare("How does it measure?", [("What is the draft budget?", SENTENCE)])
    assert search.queries == ["How does it measure? (draft budget)"]
    assert question.text == "How does it measure?"
    assert "Question: How does it measure? (draft budget)" in str(question.messages[-1].content)


def test_any_langchain_model_can_answer_and_rewrite() -> None:
    said = iter([AIMessage("How does the budget measure time?"), AIMessage(f"{SENTENCE} [1]")])
    search = Found(SOURCES)
    asking = Answerer(search, GenericFakeChatModel(messages=said), way="auto")
    question = asking.prepare("How does it measure?", [("What is the budget?", SENTENCE)])
    assert search.queries == ["How does the budget measure time?"]
    assert asking.answer(question).cited == [1]


def test_small_models_carry_words_instead_of_rewriting() -> None:
    engine = DictatingEngine("yes")
    assert Answerer(Found([]), ChatEchodraft(engine=engine), way="auto").way == "words"


def test_closing_a_streamed_answer_stops_the_model() -> None:
    asking, engine, _ = answerer(f"{SENTENCE} [1]" * 3)
    pieces = asking.stream(asking.prepare("What does the budget decide?"))
    next(pieces)
    assert engine.running
    pieces.close()
    assert not engine.running


def test_a_source_reads_the_metadata_of_any_langchain_document() -> None:
    document = Document(
        "four", metadata={"source": "a/b.md", "start_index": 7, "heading": ["Top", "Sub"], "page": 2}
    )
    source = Source.of(document, 0.5)
    assert source.place == "a/b.md, Top > Sub, page 2, characters 7 to 11"
    assert source.passage.title == "b: Sub"
    assert Source.of(Document("x")).place == "(no name)"


def test_evaluation_counts_ranks_answers_abstentions_and_passes() -> None:
    asking, _, _ = answerer(f"{SENTENCE} [1]")
    items = [
        Item("What decides?", ("the budget",), gold=("b",)),
        Item("How many?", ("how many nodes are verified",), passages=(SOURCES[0],)),
        Item("Who discovered radium?", ()),
    ]
    scores = Scores()
    for item, answer in evaluate(asking, items):
        scores.add(item, answer)
    told = scores.as_dict()
    assert told["questions"] == 3
    assert (told["recall@1"], told["recall@3"], told["mrr"]) == (0.0, 1.0, 0.5)
    assert (told["exact_match"], told["contains_answer"]) == (0.0, 1.0)
    assert 0 < told["f1"] < 1
    assert (told["answered_of_answerable"], told["abstained_of_unanswerable"]) == (1.0, 0.0)
    assert told["tokens_per_forward"] > 1
    assert told["seconds_per_token"] > 0
