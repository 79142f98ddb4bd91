"""What has to lie in the output folder before training starts: packed passages, a tokenizer, weights of its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from apps.rag.prompts import ABSTENTION, INSTRUCTION

from .documents import SHARES, load_documents, need_data, pack_documents
from .qa_sets import load_qa
from .tokenizer import train_tokenizer, wrap

if TYPE_CHECKING:
    from torch import Tensor

_TOKENIZER_PASSAGES = 12_000
#: The file of `load_weights`.
WEIGHTS = "weights.safetensors"


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


def _read_weights(data: Path, folder: Path, tokenizer: Any) -> Tensor:
    """Weights of the tokens `[V]`, counted over all passages and questions; function words weigh -1."""
    from .token_weights import are_mute, token_weights

    texts = [d.text for kind in load_documents(folder).values() for d in kind]
    for kind in load_qa(data, held=False).values():
        texts += ["\n".join((d.text, *(one.question for one in d.asked))) for d in kind]
    rows = [row.ids for row in tokenizer.encode_batch(texts, add_special_tokens=False)]
    size = tokenizer.get_vocab_size()
    weights = token_weights(rows, size)
    return weights.masked_fill(are_mute([tokenizer.id_to_token(k) for k in range(size)]), -1.0)


def prepare(data: Path, out: Path, vocab_size: int) -> None:
    """Packs the passages, trains the tokenizer and counts how rare its tokens are, each once."""
    from safetensors.torch import save_file
    from tokenizers import Tokenizer

    folder = out / "documents"
    if not (folder / "counts.json").exists():
        pack_documents(need_data(data), folder)
    if not (out / "tokenizer" / "tokenizer.json").exists():
        wrap(train_tokenizer(_texts(data, folder), vocab_size)).save_pretrained(out / "tokenizer")
    if not (out / WEIGHTS).exists():
        tokenizer = Tokenizer.from_file(str(out / "tokenizer" / "tokenizer.json"))
        save_file({"weights": _read_weights(data, folder, tokenizer)}, out / WEIGHTS)


def load_weights(out: Path) -> Tensor | None:
    """What `prepare` counted `[V]`, if it did."""
    from safetensors.torch import load_file

    path = out / WEIGHTS
    return load_file(path)["weights"] if path.exists() else None
