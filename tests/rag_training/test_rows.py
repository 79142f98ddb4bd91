"""Rows of tokens: what is learnt in them, where a quotation stands, what comes when."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from apps.rag.prompts import ABSTENTION
from apps.rag.training.batches import batches, make_batch
from apps.rag.training.objective import TrainConfig, hidden_states, stage_of
from apps.rag.training.rows import Renderer, conversation_row, text_row
from apps.rag.training.tokenizer import ASSISTANT, END, PAD
from tests.rag_training.library import DOCUMENTS, TOKENIZER, library, shard, tiny


@pytest.mark.parametrize("width", [256, 512])
def test_rows_learn_whole_answers(width: int) -> None:
    """Weights mark each answer from its first token to the end marker, and nothing is padded in between."""
    for seed in range(10):
        row = conversation_row(library(), Renderer(TOKENIZER), width, Random(seed), PAD, False)
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
    row = text_row(library(), TOKENIZER, 128, Random(1), PAD)
    assert (row.ids != PAD).all()
    assert (row.weights > 0).all()


def test_labels_are_the_tokens_that_follow(tmp_path: Path) -> None:
    """A batch's label stands one place behind its target, in the same row."""
    for batch in batches(shard(tmp_path / "s.npz"), 512, seed=0):
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
        row = conversation_row(library(), Renderer(TOKENIZER), width, Random(seed), PAD, False)
        assert row is not None
        found = [tuple(map(int, p)) for p in row.pointers if p[2]]
        assert len(found) == sum(row.ids == ASSISTANT)
        for place, start, count, _ in found:
            assert row.ids[place] == ASSISTANT
            assert list(row.ids[place + 1 : place + 1 + count]) == list(row.ids[start : start + count])
            said = TOKENIZER.decode(row.ids[place + 1 : place + 1 + count]).removesuffix("<|end|>")
            assert said == ABSTENTION or any(said.strip() in d.sentences for d in DOCUMENTS)


def test_a_question_sees_no_other_question_of_its_row() -> None:
    """What a model says in a branch is what it says to the passages and that question alone.

    In a template that puts the passages first, as those of others do.
    """
    tokenizer = deepcopy(TOKENIZER)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
    )
    row = conversation_row(library(), Renderer(tokenizer), 512, Random(4), PAD, False)
    assert row is not None
    batch = make_batch(row.ids[None], row.places[None], row.weights[None], row.pointers[None])
    model = tiny().eval()
    begins = [int(p[3]) for p in row.pointers if p[3]]
    assert len(begins) > 2
    with torch.no_grad():
        packed = hidden_states(model, batch)[0]
        for begin, end in pairwise(begins):
            alone = torch.from_numpy(
                np.concatenate((row.ids[: begins[0]], row.ids[begin:end])).astype(np.int64)
            )
            prompt = TOKENIZER.decode(alone)
            assert prompt.count("Question:") == prompt.count("<|assistant|>") == 1
            wanted = model.model(alone[None], use_cache=False).last_hidden_state[0, begins[0] :]
            torch.testing.assert_close(packed[begin:end], wanted, atol=1e-4, rtol=1e-3)
