"""A fresh chat model finds words, chooses and copies, and is supervised where it points."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from apps.rag.prompts import ABSTENTION, INSTRUCTION, Passage, answer_messages, quoted
from apps.rag.training.batches import make_batch
from apps.rag.training.first_weights import SENTENCE_HEAD, TOKEN_HEAD
from apps.rag.training.model import build_model, small_config
from apps.rag.training.objective import hidden_states
from apps.rag.training.pointing import Pointed, attention, heard, pointing_loss
from apps.rag.training.rows import Renderer, conversation_row
from apps.rag.training.stream import Stream
from apps.rag.training.token_weights import token_weights
from apps.rag.training.tokenizer import END_TOKEN, PAD, SYSTEM, train_tokenizer, wrap
from tests.rag_training.library import TEXTS, TOKENIZER, library


@pytest.fixture(scope="module")
def fresh() -> Any:
    """A model as it is before training."""
    return build_model(small_config(len(TOKENIZER)), TOKENIZER).eval()


def _looks(model: Any, where: tuple[int, int], ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Where a head looks from places `[N]` of the first of rows `[B, L]`: `[N, L]`."""
    nothing = np.zeros((len(ids), 1), dtype=np.int64)
    batch = make_batch(ids.numpy(), nothing, nothing, np.zeros((len(ids), 1, 4), dtype=np.int64))
    with torch.no_grad(), heard(model, where[:1]) as inputs:
        hidden_states(model, batch)
        return attention(model, where, inputs[where[0]], batch, torch.zeros_like(places), places).exp()


def test_a_fresh_model_copies(fresh: Any) -> None:
    """From the first step a head of the last layer looks behind the place where the last two tokens stood."""
    torch.manual_seed(0)
    once = torch.randint(300, 420, (2, 60))
    # As every conversation, with the token where heads look that find nothing.
    ids = torch.cat((torch.full((2, 1), SYSTEM), once, once), dim=1)
    places = torch.arange(71, 120)
    found = _looks(fresh, TOKEN_HEAD, ids, places)
    assert found[torch.arange(len(places)), places - 59].mean() > 0.8


def test_a_fresh_model_finds_the_words_of_the_question(fresh: Any) -> None:
    """Before any training, behind a word of the passages a head looks where the question has it."""
    passages = [Passage("T", TEXTS[k]) for k in (0, 1, 3)]
    question = "carry grain river summer hive cotton loom weaves threads queen care Budapest produced"
    text = TOKENIZER.apply_chat_template(
        answer_messages(question, passages), tokenize=False, add_generation_prompt=True
    )
    ids = TOKENIZER(text, add_special_tokens=False)["input_ids"]
    begin = len(TOKENIZER(text[: text.index("[1] T")], add_special_tokens=False)["input_ids"])
    asked = ids.index(TOKENIZER("Question", add_special_tokens=False)["input_ids"][0])
    twice = [
        token for token in dict.fromkeys(ids[begin:-2]) if ids.count(token) == 2 and token in ids[asked:begin]
    ]
    assert len(twice) >= 5
    places = torch.tensor([ids.index(token, begin) + 1 for token in twice])
    # Some of it rests on the very first token, where there is nothing.
    found = _looks(fresh, (2, 3), torch.tensor([ids]), places)[:, 1:].argmax(-1) + 1
    right = sum(place == ids.index(token) for place, token in zip(found.tolist(), twice, strict=True))
    assert right > 0.7 * len(twice)


def _names(model: Any, passages: list[Passage], words: list[str]) -> torch.Tensor:
    """The names of the sentences in which words stand `[N, D]`, read behind each, of unit length."""
    text = TOKENIZER.apply_chat_template(answer_messages("cotton", passages), tokenize=False)
    found = TOKENIZER(text, add_special_tokens=False, return_offsets_mapping=True)
    ends = [end for _, end in found["offset_mapping"]]
    with torch.no_grad(), heard(model, (3,)) as inputs:
        model.model(torch.tensor([found["input_ids"]]), use_cache=False)
    places = [ends.index(text.rindex(word) + len(word)) for word in words]
    names = inputs[3][0, places] @ Stream().name.T
    return names / names.norm(dim=1, keepdim=True)


def test_sentences_have_names_that_are_hardly_alike(fresh: Any) -> None:
    """Even those that begin alike in one passage; within a sentence, a long one too, the name stays the same."""
    long = (
        "The mill was built for grain by the river with a loom and a hive in summer, and threads of cotton."
    )
    first = Passage("T", f"{long} The queen was born in Budapest.")
    names = _names(
        fresh, [first, Passage("U", "The bees carry care.")], ["built", "cotton", "queen", "carry"]
    )
    built, cotton, queen, carry = names
    assert float(built @ cotton) > 0.95
    for one, other in ((built, queen), (built, carry), (queen, carry)):
        assert abs(float(one @ other)) < 0.6


def test_a_fresh_model_goes_on_from_the_right_one_of_two_like_phrases() -> None:
    """The sentence holds the same five tokens twice, far apart; only the place in it tells which comes next."""
    body = (
        "The loom was at the old mill on the river in summer and it carried cotton threads for the queen of the "
        "hive, while the bees were at the old mill on the hill with their grain."
    )
    passages = [Passage("A", "The queen was born in Budapest."), Passage("B", body)]
    tokenizer, model = _with_words_of(passages)
    asked = "loom cotton threads hive bees"
    assert _said(tokenizer, model, asked, passages) == quoted(body, 2) + END_TOKEN


def test_pointing_is_learnt(fresh: Any) -> None:
    """The attention that supervision reads is that of the model, and its loss falls along its gradient."""
    row = conversation_row(library(), Renderer(TOKENIZER), 256, Random(3), PAD, False)
    assert row is not None
    batch = make_batch(row.ids[None], row.places[None], row.weights[None], row.pointers[None])
    model = deepcopy(fresh)
    model.set_attn_implementation("eager")
    layers = (SENTENCE_HEAD[0], TOKEN_HEAD[0])
    with heard(model, layers) as inputs:
        seen = torch.where(batch.sees, 0.0, torch.finfo(torch.float32).min)
        out = model(batch.ids, seen, batch.positions, output_attentions=True, use_cache=False)
    found = Pointed.of(batch.pointers)
    for layer, head in (SENTENCE_HEAD, TOKEN_HEAD):
        ours = attention(model, (layer, head), inputs[layer], batch, found.rows, found.places).exp()
        torch.testing.assert_close(ours, out.attentions[layer][0, head, found.places], atol=1e-4, rtol=1e-3)
    before = pointing_loss(model, inputs, batch)
    before.backward()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.grad is not None:
                # A short step: weights that are written are steep.
                weight -= 1e-5 * weight.grad / (weight.grad.norm() + 1e-9)
        with heard(model, layers) as inputs:
            hidden_states(model, batch)
        assert pointing_loss(model, inputs, batch) < before


def _mass(model: Any, passages: list[Passage], question: str) -> list[float]:
    """How much of the choosing head's attention each passage has, and last the question, where an answer begins."""
    text = TOKENIZER.apply_chat_template(
        answer_messages(question, passages), tokenize=False, add_generation_prompt=True
    )
    found = TOKENIZER(text, add_special_tokens=False, return_offsets_mapping=True)
    begins = torch.tensor([begin for begin, _ in found["offset_mapping"]])
    last = torch.tensor([len(begins) - 1])
    looks = _looks(model, SENTENCE_HEAD, torch.tensor([found["input_ids"]]), last)[0]
    spans = [(text.index(p.text), len(p.text)) for p in passages] + [(text.index("Question"), len(question))]
    return [float(looks[(begins >= at) & (begins < at + size)].sum()) for at, size in spans]


def test_a_fresh_model_chooses_the_passage_with_the_words_of_the_question(fresh: Any) -> None:
    """And never the question, which matches itself best."""
    passages = [Passage(f"T{k}", text) for k, text in enumerate(TEXTS[:4])]
    right = 0
    for k, text in enumerate(TEXTS[:4]):
        *of_passages, of_question = _mass(fresh, passages, " ".join(text.split(".")[0].split()[2:]))
        right += max(of_passages) == of_passages[k]
        assert of_question < 0.1
    assert right >= 3


def _with_words_of(passages: list[Passage]) -> tuple[Any, Any]:
    """A tokenizer that knows the words of some passages, and a fresh model."""
    texts = [f"{INSTRUCTION}\nQuestion: what, [3] {p.title} {p.text} [2]" for p in passages]
    tokenizer = wrap(train_tokenizer(texts * 4, 700))
    return tokenizer, build_model(small_config(len(tokenizer)), tokenizer).eval()


def _said(tokenizer: Any, model: Any, question: str, passages: list[Passage]) -> str:
    """The whole greedy answer, with its end."""
    messages = answer_messages(question, passages)
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = torch.tensor([tokenizer(prompt, add_special_tokens=False)["input_ids"]])
    with torch.no_grad():
        said = model.generate(ids, max_new_tokens=90, do_sample=False)[0, ids.shape[1] :]
    return str(tokenizer.decode(said))


def test_a_fresh_model_stays_in_the_sentence_that_it_chose() -> None:
    """All begin with the same word; behind it, the one that the question asks for goes on."""
    passages = [
        Passage("A", "The mill was built for grain."),
        Passage("B", "The queen was born in Budapest."),
        Passage("C", "The loom was made for cotton."),
    ]
    tokenizer, model = _with_words_of(passages)
    for k, question in enumerate(("mill built grain", "queen born Budapest", "loom made cotton")):
        assert _said(tokenizer, model, question, passages) == quoted(passages[k].text, k + 1) + END_TOKEN


def test_a_fresh_model_answers_with_a_whole_sentence_and_its_number() -> None:
    """Before any training: word for word, no heading, with or without a full stop, then the end; or it abstains."""
    passages = [
        Passage("A", "The mill was built for grain."),
        Passage("B", "# Queens\nOne queen was born in Budapest. None of it lasts."),
        Passage("C", "- A loom was made for cotton"),
    ]
    tokenizer, model = _with_words_of(passages)
    answers = {
        "mill built grain": quoted("The mill was built for grain.", 1),
        "queen born Budapest": quoted("One queen was born in Budapest.", 2),
        "loom made cotton": quoted("- A loom was made for cotton", 3),
        "who rides horses?": ABSTENTION,
    }
    for question, answer in answers.items():
        assert _said(tokenizer, model, question, passages) == answer + END_TOKEN


def test_rare_tokens_weigh_more_than_common_ones() -> None:
    """By the share of texts that a token stands in, from 0 to 1."""
    texts = [[1, 2, 2] if k % 10 == 0 else [1] for k in range(1000)] + [[3]]
    weights = token_weights(texts, 5)
    assert float(weights[1]) == 0.0 < float(weights[2]) < float(weights[3]) == 1.0
