"""Tokens, sentences, questions and conversations that the chat model is trained on."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.rag.prompts import ABSTENTION, CHAT_MARKERS, Passage, answer_messages
from apps.rag.training.conversations import Conversation, Shape, ask, shortened
from apps.rag.training.documents import Asked, Document, is_quotable, pack_documents, split_sentences
from apps.rag.training.own_pairs import read_pairs
from apps.rag.training.qa_sets import untreebank
from apps.rag.training.questions import content_stems, make_question
from apps.rag.training.tokenizer import ASSISTANT, END
from tests.rag_training.library import DOCUMENTS, TEXTS, TOKENIZER, fake_data, library


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_tokenizer_is_lossless(text: str) -> None:
    """Every text comes back as it was."""
    if any(marker in text for marker in CHAT_MARKERS):
        return
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_a_word_has_the_same_tokens_wherever_it_begins() -> None:
    """At the start, after a space or a line end, a capitalised word is made of the same tokens."""
    alone = TOKENIZER.encode("Vienna")
    for before in ("to ", "x\n", "x. "):
        assert TOKENIZER.encode(f"{before}Vienna")[-len(alone) :] == alone


def test_chat_markers_are_single_tokens(tmp_path: Path) -> None:
    """Also after saving and loading, with the template that the application shares."""
    from transformers import AutoTokenizer

    TOKENIZER.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.eos_token_id == END
    text = loaded.apply_chat_template(
        answer_messages("Why?", [Passage("T", "Because.")]), tokenize=False, add_generation_prompt=True
    )
    ids = loaded(text, add_special_tokens=False)["input_ids"]
    assert ids[-1] == ASSISTANT
    assert ids.count(END) == 2


def test_split_sentences() -> None:
    """Abbreviations do not end a sentence; a mark before a capital does."""
    assert split_sentences("Mr. Bell came. He left, e.g. by bus. Was it?") == [
        "Mr. Bell came.",
        "He left, e.g. by bus.",
        "Was it?",
    ]
    assert is_quotable("The Danube flows through Vienna.")
    assert not is_quotable("int a; int b; // x = {1, 2};")


def test_untreebank() -> None:
    """Spaces of treebank tokens go away."""
    assert (
        untreebank("The cell ( also a room ) , `` cell '' , is n't 's")
        == "The cell (also a room), \"cell\", isn't's"
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_made_question_shares_words_with_its_sentence(seed: int) -> None:
    """Whatever the style."""
    sentence = DOCUMENTS[seed % 6].sentences[1]
    question = make_question(sentence, Random(seed))
    assert content_stems(question) & content_stems(sentence)
    assert question != sentence


@pytest.mark.parametrize("real", [False, True])
def test_an_answer_quotes_the_passage_that_it_cites(real: bool) -> None:
    """Every answer is an abstention, or a sentence of the passage with the cited number; none comes twice."""
    own = library()
    kinds = set()
    for seed in range(30):
        conversation = Conversation(own, Shape((2, 4), 2), Random(seed), real)
        quoted = []
        for turn, _ in zip(conversation.turns(), range(8), strict=False):
            kinds.add(turn.number > 0)
            if turn.number:
                sentence = turn.answer.removesuffix(f" [{turn.number}]")
                assert sentence in conversation.passages[turn.number - 1].text
                quoted.append(sentence)
            else:
                assert turn.answer == ABSTENTION
        assert len(quoted) == len(set(quoted))
    assert kinds == {False, True}


def test_shortened_keeps_what_was_asked() -> None:
    """A window moves the place of the telling sentence along."""
    sentences = tuple(f"Sentence number {k} stands here." for k in range(9))
    document = Document("g", "t", sentences, (Asked("which", 6),))
    for seed in range(20):
        short = shortened(document, 3, Random(seed))
        (asked,) = ask(short, Random(0))
        assert len(short.sentences) <= 3
        assert asked.sentence is not None
        assert short.sentences[asked.sentence] == sentences[6]


def test_packed_documents_come_back(tmp_path: Path) -> None:
    """Passages are cut into sentences once."""
    counts = pack_documents(fake_data(tmp_path / "data"), tmp_path / "out")
    assert counts["peps"] == 12


def test_own_pairs_name_a_lost_answer(tmp_path: Path) -> None:
    """An answer that stands in no passage is an error with its line."""
    path = tmp_path / "own.jsonl"
    row = {"question": "q?", "passages": [{"title": "t", "text": TEXTS[0]}], "answer": "Vienna and Budapest"}
    path.write_text(json.dumps(row) + "\n" + json.dumps(row | {"answer": ""}))
    (told, silent) = read_pairs(path)
    assert told.asked[0].sentence == 0
    assert silent.asked[0].sentence is None
    path.write_text(json.dumps(row | {"answer": "Rome"}))
    with pytest.raises(ValueError, match=r"own\.jsonl:1"):
        read_pairs(path)
