"""From a question to an answer with sources: look up, choose what fits, ask the model, cite.

Knows how the pieces fit together. Does not know terminals, files or how passages are indexed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, SystemMessage

from apps.text_input import need_characters

from . import follow_up
from .chat_model import ChatEchodraft
from .prompts import ABSTENTION, answer_messages, citations, compact, is_abstention
from .sources import Source

#: Earlier answers of the same index that drafts may copy from, newest first, and what they weigh beside a passage.
_REMEMBERED_ANSWERS = 8
_MEMORY_WEIGHT = 0.3


class Search(Protocol):
    """Finds passages, best first; leaves out what is not good enough."""

    def find(self, query: str, k: int) -> list[Source]:
        """At most `k` passages; none if nothing in the documents is about the query."""
        ...


@dataclass(frozen=True)
class Question:
    """A question with what will be sent for it. `dropped` passages were found but did not fit."""

    text: str
    standalone: str
    sources: tuple[Source, ...] = ()
    dropped: int = 0
    search_seconds: float = 0.0

    @property
    def messages(self) -> list[BaseMessage]:
        """What the model reads."""
        kinds = {"system": SystemMessage, "user": HumanMessage}
        turns = answer_messages(self.standalone, [source.passage for source in self.sources])
        return [kinds[turn["role"]](turn["content"]) for turn in turns]


@dataclass
class Answer:
    """What came of a question; grows while it is streamed. Seconds count from the question, search included."""

    question: Question
    text: str = ""
    stopped: bool = False
    first_token_seconds: float | None = None
    seconds: float = 0.0
    usage: dict[str, Any] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def cited(self) -> list[int]:
        """Numbers of the cited sources."""
        return citations(self.text, len(self.question.sources))

    @property
    def abstained(self) -> bool:
        """Whether the documents do not say."""
        return is_abstention(self.text)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the answer, every source with whether it is cited, and figures."""
        cited = self.cited
        sources = [
            {"number": number, "cited": number in cited, **source.as_dict()}
            for number, source in enumerate(self.question.sources, 1)
        ]
        return {
            "question": self.question.text,
            "standalone": self.question.standalone,
            "answer": self.text,
            "abstained": self.abstained,
            "citations": cited,
            "sources": sources,
            "dropped": self.question.dropped,
            "stats": {
                "search_seconds": self.question.search_seconds,
                "first_token_seconds": self.first_token_seconds,
                "seconds": self.seconds,
                **self.usage,
                **self.stats,
            },
        }


class Answerer:
    """Answers questions from what `search` finds with any LangChain chat model.

    `way` makes follow-up questions stand alone (`follow_up.WAYS`); `k` passages are looked up. With `ChatEchodraft`
    the passages that do not fit its context are dropped, worst first, and drafts are copied from the rest.
    """

    def __init__(self, search: Search, model: BaseChatModel, *, k: int = 5, way: str = "auto") -> None:
        if k < 1:
            raise ValueError(f"k={k} must be at least 1")
        if way not in follow_up.WAYS:
            raise ValueError(f"follow-ups {way!r} is not a way; choose one of {', '.join(follow_up.WAYS)}")
        self.search = search
        self.model = model
        self.k = k
        self._way = way

    def prepare(self, text: str, earlier: Sequence[tuple[str, str]] = ()) -> Question:
        """Look the question up. `earlier` holds (standalone question, answer) pairs, oldest first.

        Raises ValueError for an empty question, for one with bytes that are not UTF-8 and for one that leaves no room
        for a passage.
        """
        if not text.strip():
            raise ValueError("the question is empty; ask something")
        need_characters(text, "the question")
        started = time.perf_counter()
        self._check_length(text)
        standalone = follow_up.standalone(text, earlier, self.way, self.model)
        sources = self.search.find(standalone, self.k)
        return self.with_sources(text, standalone, sources, time.perf_counter() - started)

    def with_sources(
        self, text: str, standalone: str, sources: Sequence[Source], search_seconds: float = 0.0
    ) -> Question:
        """The question with as many of the sources as fit, best first."""
        kept = len(sources)
        question = Question(text, standalone, tuple(sources), 0, search_seconds)
        if not sources or not isinstance(self.model, ChatEchodraft):
            return question
        room = self._room(self.model)
        while (size := self.model.num_prompt_tokens(question.messages)) > room:
            kept -= 1
            if kept == 0:
                raise ValueError(
                    f"question and best passage have {size} tokens, but the model reads {room} beside the answer; "
                    "ask a shorter question, or index with smaller chunks"
                )
            question = Question(text, standalone, tuple(sources[:kept]), len(sources) - kept, search_seconds)
        return question

    def stream(self, question: Question, remembered: Sequence[str] = ()) -> Iterator[tuple[str, Answer]]:
        """Pieces of the answer, each with the answer so far; the last has the figures. Closing it stops the model.

        `remembered` are earlier answers, newest first. Without sources the model is not asked.
        """
        answer = Answer(question)
        started = time.perf_counter() - question.search_seconds
        for chunk in self._chunks(question, remembered):
            piece = str(chunk.text)
            if piece and answer.first_token_seconds is None:
                answer.first_token_seconds = time.perf_counter() - started
            answer.text += piece
            answer.seconds = time.perf_counter() - started
            answer.usage.update(chunk.usage_metadata or {})
            answer.stats.update(chunk.response_metadata)
            yield piece, answer

    def answer(self, question: Question, remembered: Sequence[str] = ()) -> Answer:
        """The whole answer."""
        (*_, (_, answer)) = self.stream(question, remembered)
        return answer

    @property
    def way(self) -> str:
        """How follow-up questions are made to stand alone, `auto` decided by the model's size."""
        if self._way != "auto":
            return self._way
        if not isinstance(self.model, ChatEchodraft):
            return "model"
        return "model" if self.model.num_parameters >= follow_up.ABLE_PARAMETERS else "words"

    def _chunks(self, question: Question, remembered: Sequence[str]) -> Iterator[AIMessageChunk]:
        if not question.sources:
            yield AIMessageChunk(content=ABSTENTION)
            return
        options: dict[str, Any] = {}
        if isinstance(self.model, ChatEchodraft):
            memory = list(remembered[:_REMEMBERED_ANSWERS])
            texts = [compact(source.text) for source in question.sources]
            options["sources"] = [*texts, *memory, ABSTENTION]
            weights = [1 / rank for rank in range(1, len(texts) + 1)]
            options["source_weights"] = [*weights, *[_MEMORY_WEIGHT] * (len(memory) + 1)]
        yield from self.model.stream(question.messages, **options)

    def _check_length(self, text: str) -> None:
        """Refuse a huge question before anything is embedded."""
        if isinstance(self.model, ChatEchodraft):
            room, size = self._room(self.model), self.model.num_prompt_tokens([HumanMessage(text)])
            if size > room:
                raise ValueError(
                    f"the question has {size} tokens, but the model reads {room} beside the answer; ask a shorter one"
                )

    @staticmethod
    def _room(model: ChatEchodraft) -> int:
        return max(1, model.context_length - model.max_tokens)
