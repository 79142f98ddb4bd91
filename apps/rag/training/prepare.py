"""What has to lie in the output folder before training starts: packed passages and a tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from apps.rag.prompts import ABSTENTION, INSTRUCTION

from .documents import SHARES, load_documents, need_data, pack_documents
from .qa_sets import load_qa
from .tokenizer import train_tokenizer, wrap

_TOKENIZER_PASSAGES = 12_000


def _texts(data: Path, folder: Path) -> Iterator[str]:
    """Passages and questions in about the shares that they are trained on."""
    rng = Random(1)
    documents = load_documents(folder)
    asked = [d for kind in load_qa(data, held=False).values() for d in kind]
    for name, found in documents.items():
        for document in rng.choices(found, k=int(_TOKENIZER_PASSAGES * SHARES[name])):
            yield f"[{rng.randint(1, 8)}] {document.title}\n{document.text}"
    for document in asked:
        yield f"{document.title}\n{document.text}"
        for one in document.asked:
            yield f"Question: {one.question}"
    for _ in range(50):
        yield f"{INSTRUCTION} {ABSTENTION}"


def prepare(data: Path, out: Path, vocab_size: int) -> None:
    """Packs the passages and trains the tokenizer, each once."""
    folder = out / "documents"
    if not (folder / "counts.json").exists():
        pack_documents(need_data(data), folder)
    if not (out / "tokenizer" / "tokenizer.json").exists():
        wrap(train_tokenizer(_texts(data, folder), vocab_size)).save_pretrained(out / "tokenizer")
