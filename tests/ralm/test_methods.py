"""Iter-RetGen and FLARE write what their papers' loops write by hand, and guessing documents changes no token."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from apps.ralm import RetrievalConfig, RetrievalLM, SpeculationConfig
from apps.ralm.flare import first_sentence
from apps.ralm.retrievers import Retriever, retriever_for
from core import Completion, Request, SamplingParams
from core.types import DecodeStats
from tests.core.models import byte_tokenizer, word_tokenizer
from tests.ralm.corpora import PROMPTS as ALL_PROMPTS
from tests.ralm.corpora import SAMPLING, Scripted, documents, engine, sources

PROMPTS = ALL_PROMPTS[:2]
ITER_RETGEN = RetrievalConfig(document_tokens=16, query_tokens=6, method="iter-retgen", iterations=3)
FLARE = RetrievalConfig(
    document_tokens=16, query_tokens=6, method="flare", threshold=0.2, mask=0.3, lookahead=3
)
CONFIGS = {"iter-retgen": ITER_RETGEN, "flare": FLARE}
SPECULATION = {
    "P+S+A": SpeculationConfig(),
    "S": SpeculationConfig(prefetch=1, asynchronous=False),
    "P": SpeculationConfig(scheduler=False, asynchronous=False, steps=3),
    "P+A": SpeculationConfig(scheduler=False, steps=2),
}
NAMES = [document.id or "" for document in documents()]
Outcome = tuple[list[int], list[tuple[int, str | None]]]


def written(
    source: Any, method: str, params: SamplingParams, prompts: list[str], **options: Any
) -> list[Outcome]:
    model = RetrievalLM(engine(), source, config=CONFIGS[method], **options)
    return [(done.token_ids, done.documents) for done in model.generate(prompts, params)]


@cache
def plainly(source: str, method: str, sampling: str) -> list[Outcome]:
    return written(sources()[source], method, SAMPLING[sampling], PROMPTS, mode="sequential")


class ByHand:
    """A text written by plain decoding from scratch at every turn, as a paper's loop says."""

    def __init__(self, retriever: Retriever, prompt: str, params: SamplingParams, config: RetrievalConfig):
        self.retriever, self.params, self.config = retriever, params, config
        self.ids = word_tokenizer().encode(prompt)
        self.documents: list[tuple[int, str | None]] = []

    def ask(self, tokens: list[int], num_written: int) -> list[int]:
        """What stands before the prompt from now on."""
        query = word_tokenizer().decode(tokens, skip_special_tokens=True)
        (names,) = self.retriever.search(self.retriever.encode([query]), 1)
        self.documents.append((num_written, names[0] if names else None))
        if not names:
            return []
        text = word_tokenizer().encode(self.retriever.text(names[0]))[: self.config.document_tokens]
        return text + word_tokenizer().encode(self.config.separator)

    def write(self, before: list[int], text: list[int], most: int) -> list[int]:
        left = min(most, self.params.max_new_tokens - len(text))
        params = dataclasses.replace(self.params, max_new_tokens=left)
        request = Request(before + self.ids + text, params=params, noise_start=len(text))
        return engine("none", prefix_rows=0).generate([request])[0].token_ids


def iter_retgen(hand: ByHand) -> list[int]:
    text: list[int] = []
    for _ in range(hand.config.iterations):
        before = hand.ask(hand.ids[-hand.config.query_tokens :] + text, len(text))
        text = hand.write(before, [], hand.params.max_new_tokens)
    return text


def flare(hand: ByHand) -> list[int]:
    text: list[int] = []
    before = hand.ask(hand.ids[-hand.config.query_tokens :], 0)
    while len(text) < hand.params.max_new_tokens:
        ahead = hand.write(before, text, hand.config.lookahead)
        tokens = before + hand.ids + text + ahead
        with torch.inference_mode():
            logits = engine("none").target.model(torch.tensor([tokens])).logits[0]  # type: ignore[attr-defined]
        said = logits.softmax(-1)[-len(ahead) - 1 : -1]
        probs = [float(row[token]) for row, token in zip(said, ahead, strict=True)]
        if min(probs) < hand.config.threshold:
            question = [token for token, prob in zip(ahead, probs, strict=True) if prob >= hand.config.mask]
            before = hand.ask(question or (hand.ids + text)[-hand.config.query_tokens :], len(text))
            ahead = hand.write(before, text, hand.config.lookahead)
        text += ahead
    return text


LOOPS: dict[str, Callable[[ByHand], list[int]]] = {"iter-retgen": iter_retgen, "flare": flare}


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("source", ["flat", "bm25"])
@pytest.mark.parametrize("method", LOOPS)
def test_plain_retrieval_is_the_papers_loop(method: str, source: str, sampling: str) -> None:
    for prompt, (tokens, asked) in zip(PROMPTS, plainly(source, method, sampling), strict=True):
        hand = ByHand(retriever_for(sources()[source]), prompt, SAMPLING[sampling], CONFIGS[method])
        assert LOOPS[method](hand) == tokens
        # A text ends where its last document came again; by hand it is asked for to the end.
        assert hand.documents[: len(asked)] == asked
        assert {name for _, name in hand.documents[len(asked) :]} <= {asked[-1][1]}


def test_these_texts_change_their_documents_and_flare_does_not_always_ask() -> None:
    """Else all here would say little."""
    for method, sampling in itertools.product(LOOPS, SAMPLING):
        trails = [[name for _, name in asked] for _, asked in plainly("flat", method, sampling)]
        assert sum(len(set(trail)) for trail in trails) > 3
    counts = [len(asked) for _, asked in plainly("flat", "flare", "greedy")]
    sentences = -(-SAMPLING["greedy"].max_new_tokens // FLARE.lookahead)
    assert len(counts) < sum(counts) < len(counts) * (1 + sentences)


@pytest.mark.parametrize("parts", SPECULATION)
@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("source", ["flat", "hnsw", "bm25", "langchain"])
@pytest.mark.parametrize("method", LOOPS)
def test_speculation_writes_what_plain_retrieval_writes(
    method: str, source: str, sampling: str, parts: str
) -> None:
    """All texts at once: none depends on those that share its verifications."""
    ours = written(sources()[source], method, SAMPLING[sampling], PROMPTS, speculation=SPECULATION[parts])
    assert ours == plainly(source, method, sampling)


@pytest.mark.parametrize("method", LOOPS)
def test_wrong_guesses_are_rolled_back(method: str) -> None:
    source = Scripted(lambda n: [NAMES[n % 40]], lambda n, names: NAMES[n % (39 + n % 2)], delay=0.002)
    params = SAMPLING["sampled"]
    model = RetrievalLM(engine(), source, config=CONFIGS[method], speculation=SPECULATION["P+A"])
    done = model.generate(PROMPTS, params)
    expected = written(source, method, params, PROMPTS, mode="sequential")
    assert [(one.token_ids, one.documents) for one in done] == expected
    stats = done[0].stats
    assert stats.roll_backs > 0
    assert stats.lost_tokens >= stats.lost_steps >= stats.roll_backs


@pytest.mark.parametrize("method", LOOPS)
@pytest.mark.parametrize(
    ("script", "guess"),
    [
        (lambda n: [], None),
        (lambda n: NAMES[:1] if n % 2 else [], lambda n, names: None if n % 3 else names[0]),
        (lambda n: [NAMES[7]], None),
        (lambda n: [NAMES[n % 40]], lambda n, names: NAMES[(n + 1) % 40]),
    ],
    ids=["nothing", "sometimes nothing", "always the same", "never as guessed"],
)
def test_no_retriever_is_adverse_enough_to_change_a_token(method: str, script: Any, guess: Any) -> None:
    source = Scripted(script, guess)
    params = SAMPLING["sampled"]
    expected = written(source, method, params, PROMPTS, mode="sequential")
    assert written(source, method, params, PROMPTS, speculation=SPECULATION["P+A"]) == expected


@pytest.mark.parametrize("method", LOOPS)
@pytest.mark.parametrize("mode", ["sequential", "speculative"])
def test_nothing_of_a_stream_is_taken_back(method: str, mode: Any) -> None:
    model = RetrievalLM(engine(), sources()["flat"], config=CONFIGS[method], mode=mode)
    (whole,) = model.generate(PROMPTS[:1], SAMPLING["greedy"])
    assert "".join(model.stream(PROMPTS[0], SAMPLING["greedy"])) == whole.text


@pytest.mark.parametrize("method", LOOPS)
def test_a_stop_string_ends_these_texts(method: str) -> None:
    whole, _ = plainly("flat", method, "greedy")[0]
    word = word_tokenizer().decode([whole[6]])
    params = dataclasses.replace(SAMPLING["greedy"], stop=(word,))
    modes = ("sequential", "speculative")
    texts = [written(sources()["flat"], method, params, PROMPTS[:1], mode=mode) for mode in modes]
    assert texts[0] == texts[1]
    tokens = texts[0][0][0]
    assert word in word_tokenizer().decode(tokens[-1:])
    assert word not in word_tokenizer().decode(tokens[:-1]).split()


@pytest.mark.parametrize(
    ("text", "reason", "sentence"),
    [
        ("It is 3.14. ", "stop", "It is 3.14."),
        ("Is it? ", "stop", "Is it?"),
        ("A line\n", "stop", "A line\n"),
        ("It goes on", "length", "It goes on"),
        (". ", "stop", "."),
    ],
)
def test_a_sentence_ends_at_its_mark(text: str, reason: Any, sentence: str) -> None:
    tokenizer = byte_tokenizer()
    done = Completion(text, tokenizer.encode(text, add_special_tokens=False), reason, DecodeStats())
    assert tokenizer.decode(first_sentence(done, tokenizer.decode, ())) == sentence


@pytest.mark.parametrize(
    "wrong", [{"method": "x"}, {"iterations": 0}, {"threshold": 1.5}, {"mask": -0.1}, {"lookahead": 0}]
)
def test_settings_out_of_range_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RetrievalConfig(**wrong)
