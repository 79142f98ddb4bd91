"""Six small documents, a tokenizer learnt from them, and what tests of the training draw from them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from apps.rag.training.batches import PARTS
from apps.rag.training.conversations import Library
from apps.rag.training.documents import Asked, Document, split_sentences
from apps.rag.training.model import build_model, small_config
from apps.rag.training.rows import Renderer, conversation_row
from apps.rag.training.tokenizer import PAD, train_tokenizer, wrap

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


def library(real_share: float = 0.0) -> Library:
    asked = [
        Document(d.group, d.title, d.sentences, (Asked(f"What about {d.title}?", 1, ("x",)),))
        for d in DOCUMENTS
    ]
    return Library({"wiki": DOCUMENTS}, {"squad2_half": asked}, real_share)


def tiny() -> Any:
    config = small_config(len(TOKENIZER), width=32, layers=2, heads=2, inner=48)
    return build_model(config)


def shard(path: Path, rows: int = 8, width: int = 256) -> Path:
    made = []
    while len(made) < rows:
        row = conversation_row(library(), Renderer(TOKENIZER), width, Random(len(made)), PAD, False)
        assert row is not None
        made.append(row)
    arrays = {part: np.stack([getattr(row, part) for row in made]) for part in PARTS}
    np.savez(path, allow_pickle=False, **{f"{part}-{width}": array for part, array in arrays.items()})
    return path


def fake_data(folder: Path) -> Path:
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
