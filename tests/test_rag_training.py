"""Training of the chat model: tokenizer, documents, questions, rows, the copying start, a few steps, the held test."""

from __future__ import annotations

import gzip
import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from apps.rag.prompts import ABSTENTION, CHAT_MARKERS, Passage, answer_messages
from apps.rag.training.batches import PARTS, batches, make_batch
from apps.rag.training.conversations import Conversation, Library, Shape, ask, shortened
from apps.rag.training.documents import Asked, Document, is_quotable, pack_documents, split_sentences
from apps.rag.training.evaluate import score
from apps.rag.training.first_weights import SENTENCE_HEAD, TOKEN_HEAD
from apps.rag.training.held_questions import HeldQuestion, held_questions
from apps.rag.training.model import build_model, small_config
from apps.rag.training.objective import AnswerObjective, TrainConfig, stage_of
from apps.rag.training.own_pairs import read_pairs
from apps.rag.training.pointing import Pointed, attention, heard, pointing_loss
from apps.rag.training.qa_sets import is_held, load_qa, untreebank
from apps.rag.training.questions import content_stems, make_question
from apps.rag.training.rows import Renderer, conversation_row, text_row
from apps.rag.training.shards import build_shard
from apps.rag.training.tokenizer import ASSISTANT, END, PAD, train_tokenizer, wrap
from core.training import ShardFeed, Trainer

TEXTS = [
    "The Danube flows through Vienna and Budapest. Many barges carry grain along the river every summer.",
    "A loom weaves threads into cloth. Steam power changed how factories produced cotton after 1785.",
    "Guido van Rossum wrote the first version of Python. Lines are limited to 79 characters in the style.",
    "Bees dance to tell where flowers stand. The queen of a hive lives for about four years in good care.",
    "The treaty was signed in Paris in 1763. Both sides gave up several islands to end the long war.",
    "Granite forms deep below the ground from magma. It cools slowly, so that large crystals can grow.",
]
TOKENIZER = wrap(train_tokenizer(TEXTS * 4, 420))
DOCUMENTS = [Document(f"g{k % 2}", f"Title {k}", tuple(split_sentences(t))) for k, t in enumerate(TEXTS)]


def _library(real_share: float = 0.0) -> Library:
    asked = [
        Document(d.group, d.title, d.sentences, (Asked(f"What about {d.title}?", 1, ("x",)),))
        for d in DOCUMENTS
    ]
    return Library({"wiki": DOCUMENTS}, {"squad2_half": asked}, real_share)


@settings(max_examples=100)
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
    library = _library()
    kinds = set()
    for seed in range(30):
        conversation = Conversation(library, Shape((2, 4), 2), Random(seed), real)
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


@pytest.mark.parametrize("width", [256, 512])
def test_rows_learn_whole_answers(width: int) -> None:
    """Weights mark each answer from its first token to the end marker, and nothing is padded in between."""
    for seed in range(10):
        row = conversation_row(_library(), Renderer(TOKENIZER), width, Random(seed), PAD, False)
        assert row is not None
        assert row.ids.shape == (width,)
        assert row.places.shape == row.weights.shape == (width // 4,)
        learnt = {int(p): int(w) for p, w in zip(row.places, row.weights, strict=True) if w > 2}
        starts = [k for k in range(width) if row.ids[k] == ASSISTANT]
        assert starts
        for start in starts:
            end = start + 1 + list(row.ids[start + 1 :]).index(END)
            assert all(place in learnt for place in range(start, end))
            assert end not in learnt


def test_text_rows_learn_repeated_sentences() -> None:
    """Rows of plain text are full."""
    row = text_row(_library(), TOKENIZER, 128, Random(1), PAD)
    assert (row.ids != PAD).all()
    assert (row.weights > 0).all()


def _shard(path: Path, rows: int = 8, width: int = 256) -> Path:
    made = []
    while len(made) < rows:
        row = conversation_row(_library(), Renderer(TOKENIZER), width, Random(len(made)), PAD, False)
        assert row is not None
        made.append(row)
    arrays = {part: np.stack([getattr(row, part) for row in made]) for part in PARTS}
    np.savez(path, allow_pickle=False, **{f"{part}-{width}": array for part, array in arrays.items()})
    return path


def test_labels_are_the_tokens_that_follow(tmp_path: Path) -> None:
    """A batch's label stands one place behind its target, in the same row."""
    for batch in batches(_shard(tmp_path / "s.npz"), 512, seed=0):
        flat = batch.ids.flatten()
        assert batch.ids.shape == (2, 256)
        assert torch.equal(flat[batch.places + 1], batch.labels)


def test_stages_grow_longer() -> None:
    """Short rows first, long ones last, and more real questions at the end."""
    config = TrainConfig(short_until=0.3, middle_until=0.6, final_share=0.2)
    widths = [stage_of(spent, config)[1]["widths"][0] for spent in (0.0, 0.4, 0.7, 0.9)]
    assert widths == [256, 512, 1024, 1024]
    assert stage_of(0.9, config)[1]["real_share"] > stage_of(0.1, config)[1]["real_share"]


@pytest.mark.parametrize("width", [256, 512])
def test_pointers_name_where_a_quotation_stands(width: int) -> None:
    """The tokens behind a pointer's place are those from its start, a whole sentence of them."""
    for seed in range(10):
        row = conversation_row(_library(), Renderer(TOKENIZER), width, Random(seed), PAD, False)
        assert row is not None
        found = [tuple(map(int, p)) for p in row.pointers if p[2]]
        assert len(found) == sum(row.ids == ASSISTANT)
        for place, start, count in found:
            assert row.ids[place] == ASSISTANT
            assert list(row.ids[place + 1 : place + 1 + count]) == list(row.ids[start : start + count])
            said = TOKENIZER.decode(row.ids[place + 1 : place + 1 + count]).removesuffix("<|end|>")
            assert said == ABSTENTION or any(said.strip() in d.sentences for d in DOCUMENTS)


@pytest.fixture(scope="module")
def fresh() -> Any:
    """A model as it is before training."""
    return build_model(small_config(len(TOKENIZER), inner=96), TOKENIZER).eval()


def test_a_fresh_model_copies(fresh: Any) -> None:
    """From the first step a head of the last layer looks behind the place where the last two tokens stood."""
    torch.manual_seed(0)
    once = torch.randint(300, 420, (2, 60))
    ids = torch.cat((once, once), dim=1)
    places = torch.arange(70, 119)
    with torch.no_grad(), heard(fresh, (5,)) as inputs:
        fresh.model(ids, use_cache=False)
        found = attention(fresh, TOKEN_HEAD, inputs[5], torch.zeros_like(places), places).exp()
    assert found[torch.arange(len(places)), places - 59].mean() > 0.8


def test_a_fresh_model_finds_the_words_of_the_question(fresh: Any) -> None:
    """Before any training, a word of the question looks behind the place where it stands in the passages."""
    passages = [Passage("T", TEXTS[k]) for k in (0, 1, 3)]
    question = "carry grain river summer hive cotton loom weaves threads queen care Budapest produced"
    text = TOKENIZER.apply_chat_template(
        answer_messages(question, passages), tokenize=False, add_generation_prompt=True
    )
    ids = TOKENIZER(text, add_special_tokens=False)["input_ids"]
    begin = len(ids) - len(TOKENIZER(text[text.index(question) :], add_special_tokens=False)["input_ids"])
    twice = [
        token for token in dict.fromkeys(ids[begin:-2]) if ids.count(token) == 2 and token in ids[:begin]
    ]
    assert len(twice) >= 5
    right = 0
    with torch.no_grad(), heard(fresh, (2,)) as inputs:
        fresh.model(torch.tensor([ids]), use_cache=False)
        for token in twice:
            place = torch.tensor([ids.index(token, begin)])
            found = attention(fresh, (2, 0), inputs[2], torch.zeros_like(place), place).exp()[0]
            right += int(found.argmax()) == ids.index(token) + 1
    assert right > 0.7 * len(twice)


def test_pointing_is_learnt(fresh: Any) -> None:
    """The attention that supervision reads is that of the model, and its loss falls along its gradient."""
    row = conversation_row(_library(), Renderer(TOKENIZER), 256, Random(3), PAD, False)
    assert row is not None
    batch = make_batch(row.ids[None], row.places[None], row.weights[None], row.pointers[None])
    model = deepcopy(fresh)
    model.set_attn_implementation("eager")
    with heard(model, (4, 5)) as inputs:
        out = model(batch.ids, output_attentions=True, use_cache=False)
    found = Pointed.of(batch.pointers)
    for layer, head in (SENTENCE_HEAD, TOKEN_HEAD):
        ours = attention(model, (layer, head), inputs[layer], found.rows, found.places).exp()
        torch.testing.assert_close(ours, out.attentions[layer][0, head, found.places], atol=1e-4, rtol=1e-3)
    before = pointing_loss(model, inputs, batch.pointers)
    before.backward()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.grad is not None:
                weight -= 0.05 * weight.grad / (weight.grad.norm() + 1e-9)
        with heard(model, (4, 5)) as inputs:
            model.model(batch.ids, use_cache=False)
        assert pointing_loss(model, inputs, batch.pointers) < before


def _tiny() -> Any:
    config = small_config(len(TOKENIZER), width=32, layers=2, heads=2, inner=48)
    return build_model(config)


class _FixedFeed(ShardFeed):
    """A feed that makes its shards at once."""

    def prepare(self, kind: str, index: int, **changes: Any) -> Path:
        path = self.path(kind, index)
        return path if path.exists() else _shard(path)


def _trainer(out: Path, **values: Any) -> Trainer:
    config = TrainConfig(
        **{"max_steps": 12, "batch_tokens": 512, "warmup_steps": 2, "optimizer": "adamw"} | values
    )
    feed = _FixedFeed(None, out / "shards")
    feed.prepare("held", 0)
    objective = AnswerObjective(feed, config)
    return Trainer(_tiny(), objective, out, config, lambda line: None, TOKENIZER.save_pretrained, "cpu")


def test_training_learns_resumes_and_exports(tmp_path: Path) -> None:
    """The held-out loss falls, a second run goes on, and plain transformers generates from the export."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    first = _trainer(tmp_path)
    first.run()
    second = _trainer(tmp_path, max_steps=40)
    assert second.resume()
    assert second.progress.step == 12
    ended = second.run()
    assert ended.step == 40
    assert ended.held[-1][2] < ended.held[0][2]
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "export")
    assert model.dtype == torch.bfloat16
    assert model.generation_config.eos_token_id == END
    ids = AutoTokenizer.from_pretrained(tmp_path / "export")("Why?", return_tensors="pt")["input_ids"]
    assert model.generate(ids, max_new_tokens=3).shape[1] > ids.shape[1]


def test_loss_counts_weights() -> None:
    """A target of weight nought changes nothing."""
    row = conversation_row(_library(), Renderer(TOKENIZER), 256, Random(0), PAD, False)
    assert row is not None
    batch = make_batch(row.ids[None], row.places[None], row.weights[None], row.pointers[None])
    objective = AnswerObjective(_FixedFeed.__new__(_FixedFeed), TrainConfig())
    model = _tiny()
    loss, _ = objective.loss(model, batch, 0.0)
    silent = batch.weights == 0
    batch.labels[silent] = 7
    again, _ = objective.loss(model, batch, 0.0)
    assert silent.any() or row.weights.all()
    assert loss.item() == pytest.approx(again.item())


def _fake_data(folder: Path) -> Path:
    """A data folder small enough to train on in seconds."""
    (folder / "text").mkdir(parents=True)
    (folder / "passages").mkdir()
    (folder / "qa").mkdir()
    with gzip.open(folder / "passages" / "peps.jsonl.gz", "wt") as file:
        for k, text in enumerate(TEXTS * 2):
            file.write(json.dumps({"id": f"pep-{k}#0", "title": f"pep {k}", "text": f"{text} {text}"}) + "\n")
    titles = [f"Article {k}" for k in range(60)]
    paragraphs = [
        {
            "context": TEXTS[k % 6],
            "qas": [
                {
                    "question": f"what about {TEXTS[k % 6].split()[1]}?",
                    "answers": [{"text": TEXTS[k % 6].split(".")[0].split()[-1], "answer_start": 0}],
                    "is_impossible": False,
                },
                {"question": "who knows?", "answers": [], "is_impossible": True},
            ],
        }
        for k in range(60)
    ]
    articles = [{"title": t, "paragraphs": [p]} for t, p in zip(titles, paragraphs, strict=True)]
    (folder / "qa" / "squad2_half.json").write_text(json.dumps({"data": articles}))
    return folder


def test_the_held_split_is_never_trained_on(tmp_path: Path) -> None:
    """A document is either held or not, by its title alone; both halves together are all."""
    data = _fake_data(tmp_path)
    held, rest = load_qa(data, True)["squad2_half"], load_qa(data, False)["squad2_half"]
    assert {d.title for d in held}.isdisjoint(d.title for d in rest)
    assert len(held) + len(rest) == 60
    assert held
    assert is_held("Warsaw!") == is_held("warsaw")


def test_held_questions_have_the_gold_passage_or_not(tmp_path: Path) -> None:
    """Answerable ones hold an answer in the gold passage and nowhere else; removed ones nowhere."""
    questions = held_questions(_fake_data(tmp_path), 8)
    assert {q.kind for q in questions} == {"answerable", "removed", "impossible"}
    for q in questions:
        holding = [k for k, p in enumerate(q.passages, 1) if q.answers and q.answers[0] in p.text]
        assert len(q.passages) == 5
        if q.kind != "impossible":
            assert holding == ([q.gold] if q.gold else [])


def test_score_counts_what_it_says() -> None:
    """Right sentence, citation and abstention, each over its own questions."""
    passages = (Passage("a", "Bees dance. They sleep."), Passage("b", "Stones lie."))
    asked = HeldQuestion("who dances?", passages, 1, ("bees",), "answerable")
    removed = HeldQuestion("who sings?", passages, 0, ("birds",), "removed")
    marks = score(
        [asked, asked, asked, asked, removed, removed],
        ["Bees dance. [1]", "Bees dance. [2]", "Stones lie. [2]", ABSTENTION, ABSTENTION, "Stones sing. [2]"],
    )
    assert marks["right sentence"] == 50.0
    assert marks["answered"] == 75.0
    assert marks["citation right where right"] == 50.0
    assert marks["quoted word for word"] == 75.0
    assert marks["abstained, removed"] == 50.0
    assert marks["abstained, impossible"] is None


def test_packed_documents_come_back(tmp_path: Path) -> None:
    """Passages are cut into sentences once."""
    counts = pack_documents(_fake_data(tmp_path / "data"), tmp_path / "out")
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


def test_command_names_missing_data(tmp_path: Path) -> None:
    """Without data the command says what is missing."""
    from apps.rag.train import app

    result = CliRunner().invoke(app, ["--out", str(tmp_path / "o"), "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "--data" in result.output + (result.stderr or "")


class _NearFeed(ShardFeed):
    """A feed that makes its shards in this process, which spares the test a second start of the libraries."""

    def prepare(self, kind: str, index: int, **changes: Any) -> Path:
        path = self.path(kind, index)
        return path if path.exists() else build_shard(replace(self.base, out=str(path), **changes))


def test_fine_tuning_with_own_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--model` and `--pairs` fine-tune a saved model, in a few steps, and leave an export and a picture."""
    import core.training
    from apps.rag.train import app

    monkeypatch.setattr(core.training, "ShardFeed", _NearFeed)

    pytest.importorskip("matplotlib")
    _tiny().save_pretrained(tmp_path / "own")
    TOKENIZER.save_pretrained(tmp_path / "own")
    pairs = tmp_path / "own.jsonl"
    rows = [
        {
            "question": f"what {t.split()[1]}?",
            "passages": [{"title": "", "text": t}],
            "answer": t.split(".")[0],
        }
        for t in TEXTS
    ]
    pairs.write_text("\n".join(map(json.dumps, rows)))
    options = [
        "--out",
        str(tmp_path / "run"),
        "--model",
        str(tmp_path / "own"),
        "--pairs",
        str(pairs),
        "--quiet",
    ]
    for setting in ("max_steps=2", "shard_tokens=2048", "held_tokens=2048", "batch_tokens=1024"):
        options += ["--set", setting]
    result = CliRunner().invoke(app, [*options, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "run" / "export" / "model.safetensors").exists()
    assert (tmp_path / "run" / "loss.png").exists()
