"""Guessing what a retrieval will say changes when a text is written, and never a token of it."""

from __future__ import annotations

import dataclasses
import itertools
from functools import cache
from typing import Any

import pytest

from apps.ralm import RetrievalConfig, RetrievalLM, SpeculationConfig
from apps.ralm.retrievers import Retriever, retriever_for
from core import Request, SamplingParams
from tests.core.models import word_tokenizer
from tests.ralm.corpora import GREEDY, PROMPTS, SAMPLED, SAMPLING, Scripted, documents, engine, sources

CONFIG = RetrievalConfig(document_tokens=16, query_tokens=6)
PARTS = {
    "+".join(name for name, on in zip("PSA", parts, strict=True) if on) or "none": SpeculationConfig(
        prefetch=20 if parts[0] else 1, scheduler=parts[1], asynchronous=parts[2]
    )
    for parts in itertools.product([False, True], repeat=3)
}
SOURCES = ["flat", "hnsw", "bm25", "langchain"]
NAMES = [document.id or "" for document in documents()]

Outcome = tuple[list[int], str, str, list[tuple[int, str | None]]]


def written(source: Any, params: SamplingParams, prompts: list[str], **options: Any) -> list[Outcome]:
    model = RetrievalLM(engine(), source, config=CONFIG, **options)
    done = model.generate(prompts, params)
    return [(c.token_ids, c.text, c.finish_reason, c.documents) for c in done]


@cache
def plainly(source: str, sampling: str) -> list[Outcome]:
    return written(sources()[source], SAMPLING[sampling], PROMPTS, mode="sequential")


def by_rereading(retriever: Retriever, prompt: str, params: SamplingParams) -> list[int]:
    """The paper's baseline: every few tokens everything is read anew, by plain decoding, one text at a time."""
    plain, tokens = engine("none", prefix_rows=0), word_tokenizer()
    ids, text = tokens.encode(prompt), list[int]()
    while len(text) < params.max_new_tokens:
        query = tokens.decode((ids + text)[-CONFIG.query_tokens :], skip_special_tokens=True)
        (names,) = retriever.search(retriever.encode([query]), 1)
        before = (
            tokens.encode(retriever.text(names[0]))[:16] + tokens.encode(CONFIG.separator) if names else []
        )
        own = dataclasses.replace(params, max_new_tokens=min(4, params.max_new_tokens - len(text)))
        request = Request(before + ids + text, params=own, noise_start=len(text))
        text += plain.generate([request])[0].token_ids
    return text


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("source", SOURCES)
def test_plain_retrieval_writes_what_reading_everything_anew_writes(source: str, sampling: str) -> None:
    retriever = retriever_for(sources()[source])
    expected = [by_rereading(retriever, prompt, SAMPLING[sampling]) for prompt in PROMPTS]
    assert [tokens for tokens, *_ in plainly(source, sampling)] == expected


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("source", SOURCES)
def test_speculation_writes_what_plain_retrieval_writes(source: str, sampling: str, parts: str) -> None:
    config = PARTS[parts]
    assert (
        written(sources()[source], SAMPLING[sampling], PROMPTS[:1], speculation=config)
        == plainly(source, sampling)[:1]
    )


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("parts", ["none", "P+S+A"])
def test_a_text_does_not_depend_on_those_that_share_its_verifications(parts: str, sampling: str) -> None:
    together = written(sources()["flat"], SAMPLING[sampling], PROMPTS, speculation=PARTS[parts])
    assert together == plainly("flat", sampling)


def test_a_text_written_in_several_requests_is_sampled_as_if_in_one() -> None:
    model, prompt = engine(), word_tokenizer().encode(PROMPTS[0])
    (whole,) = model.generate([Request(prompt, params=SAMPLED, noise_start=0)])
    text: list[int] = []
    for size in (5, 1, 8):
        params = dataclasses.replace(SAMPLED, max_new_tokens=size)
        text += model.generate([Request(prompt + text, params=params, noise_start=len(text))])[0].token_ids
    assert text == whole.token_ids
    (other,) = model.generate([Request(prompt, params=SAMPLED, noise_start=1)])
    assert other.token_ids != whole.token_ids


def test_documents_change_while_these_texts_are_written() -> None:
    """Else all of the above would say little."""
    for source, sampling in itertools.product(SOURCES, SAMPLING):
        assert sum(len({name for _, name in row[3]}) for row in plainly(source, sampling)) > 4


ADVERSARIES = {
    "never the cached passage": (lambda n: [NAMES[n % 40]], lambda n, names: NAMES[(n + 1) % 40]),
    "always the cached passage": (lambda n: [NAMES[7]], None),
    "every other time": (lambda n: [NAMES[n % 2]], lambda n, names: NAMES[0]),
    "fewer than k": (lambda n: NAMES[n % 40 : n % 40 + n % 3], lambda n, names: names[n % len(names)]),
    "nothing": (lambda n: [], None),
    "sometimes nothing": (lambda n: NAMES[:1] if n % 2 else [], lambda n, names: None if n % 3 else names[0]),
    "nothing guessed": (lambda n: [NAMES[n % 5]], lambda n, names: None),
}


@pytest.mark.parametrize("parts", ["none", "P+S+A"])
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_no_retriever_is_adverse_enough_to_change_a_token(adversary: str, parts: str) -> None:
    source = Scripted(*ADVERSARIES[adversary])
    assert written(source, SAMPLED, PROMPTS[:1], speculation=PARTS[parts]) == written(
        source, SAMPLED, PROMPTS[:1], mode="sequential"
    )


def test_equal_scores_are_settled_as_the_corpus_settles_them() -> None:
    """Twin passages: whichever the cache holds, the smaller id is the answer."""
    from retrieval import FaissStore
    from tests.ralm.corpora import WordVectors

    texts = [document.page_content for document in documents(12)]
    twins = FaissStore(WordVectors(), durable=False)
    twins.add_texts(texts * 2, ids=[f"{twin}{i}" for twin in "ba" for i in range(12)])
    for parts in ("none", "P+S+A"):
        ours = written(twins, GREEDY, PROMPTS[:1], speculation=PARTS[parts])
        assert ours == written(twins, GREEDY, PROMPTS[:1], mode="sequential")
        assert {(name or "")[0] for _, name in ours[0][3]} == {"a"}
    twins.close()


@pytest.mark.parametrize(("steps", "ahead"), [(1, 9), (2, 1), (40, 2)])
def test_any_stride_and_any_lead_write_the_same(steps: int, ahead: int) -> None:
    config = SpeculationConfig(scheduler=False, steps=steps, max_ahead=ahead)
    source = Scripted(lambda n: [NAMES[n % 3]], lambda n, names: NAMES[n % 4 % 3], delay=0.002)
    assert written(source, SAMPLED, PROMPTS[:1], speculation=config) == written(
        source, SAMPLED, PROMPTS[:1], mode="sequential"
    )


def test_the_published_settings_write_the_same() -> None:
    ours = written(sources()["flat"], SAMPLED, PROMPTS[:1], speculation=SpeculationConfig.paper())
    assert ours == plainly("flat", "sampled")[:1]


def test_stop_strings_and_end_tokens_end_texts_alike() -> None:
    """A stop string may begin in one stretch and end in another, or stand in one that is rolled back."""
    source = Scripted(lambda n: [NAMES[n % 3]], lambda n, names: NAMES[n % 2])
    (full,) = written(source, SAMPLED, PROMPTS[:1], mode="sequential")
    words = full[1].split(" ")
    for first in (3, 6):
        params = dataclasses.replace(SAMPLED, stop=(" ".join(words[first : first + 2]),))
        plain = written(source, params, PROMPTS[:1], mode="sequential")
        assert plain[0][2] == "stop"
        assert full[1].startswith(plain[0][1])
        for parts in ("none", "P+S+A"):
            assert written(source, params, PROMPTS[:1], speculation=PARTS[parts]) == plain


def test_an_end_token_ends_a_text() -> None:
    source = Scripted(lambda n: [NAMES[n % 3]], lambda n, names: NAMES[n % 2])
    (full,) = written(source, SAMPLED, PROMPTS[:1], mode="sequential")
    model = engine()
    model.target.eos_token_ids = frozenset({full[0][7]})
    try:
        plain = written(source, SAMPLED, PROMPTS[:1], mode="sequential")
        ours = written(source, SAMPLED, PROMPTS[:1], speculation=PARTS["P+S+A"])
    finally:
        model.target.eos_token_ids = frozenset()
    assert plain == ours
    assert plain[0][2] == "stop"
    assert plain[0][0] == full[0][: full[0].index(full[0][7]) + 1]
