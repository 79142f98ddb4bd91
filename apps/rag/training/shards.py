"""Training rows made ahead of time, in a process of their own: `python -m apps.rag.training.shards SPEC.json`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from .conversations import Library
from .documents import Document, load_documents
from .own_pairs import read_pairs
from .qa_sets import load_qa
from .rows import Renderer, Row, conversation_row, text_row

_MOST_FAILURES = 500


@dataclass(frozen=True)
class ShardSpec:
    """What one shard is made of; the same spec gives the same shard. `width` 0 mixes all widths."""

    data: str
    documents: str
    tokenizer: str
    out: str
    seed: int
    tokens: int = 300_000
    widths: tuple[int, ...] = (256, 512, 1024)
    real_share: float = 0.3
    text_share: float = 0.1
    silent_share: float = 0.25
    brief_share: float = 0.0
    held_out: bool = False
    pairs: str = ""


def _library(spec: ShardSpec) -> Library:
    """The documents of a spec; held-out shards hold questions of the held split alone."""
    if spec.pairs:
        own = read_pairs(Path(spec.pairs))
        # One in eight is held out, where there are enough to spare one.
        split = [d for k, d in enumerate(own) if (k % 8 == 7) == spec.held_out]
        return Library({}, {"own": split or own}, 1.0, spec.silent_share)
    made: dict[str, list[Document]] = {} if spec.held_out else load_documents(Path(spec.documents))
    return Library(made, load_qa(Path(spec.data), spec.held_out), spec.real_share, spec.silent_share)


def make_rows(spec: ShardSpec) -> dict[int, list[Row]]:
    """Rows by width, about `tokens` tokens in all, the same number of tokens of each width."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(spec.tokenizer)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    library, renderer = _library(spec), Renderer(tokenizer)
    rng = Random(spec.seed)
    rows: dict[int, list[Row]] = {}
    failed = 0
    for width in spec.widths:
        made = rows.setdefault(width, [])
        while len(made) * width < spec.tokens / len(spec.widths):
            if rng.random() < spec.text_share:
                made.append(text_row(library, tokenizer, width, rng, pad))
                continue
            real = rng.random() < library.real_share
            is_brief = rng.random() < spec.brief_share
            row = conversation_row(library, renderer, width, rng, pad, real, is_brief)
            failed = 0 if row is not None else failed + 1
            if failed > _MOST_FAILURES:
                raise ValueError(
                    f"no conversation fits {width} tokens: the passages or the template are too long"
                )
            if row is not None:
                made.append(row)
    return rows


def build_shard(spec: ShardSpec) -> Path:
    """Makes the shard of a spec; it appears under its name only when it is whole."""
    arrays: dict[str, np.ndarray] = {}
    for width, rows in make_rows(spec).items():
        largest = max(int(row.ids.max()) for row in rows)
        kind = np.uint16 if largest < 65536 else np.uint32
        arrays[f"ids-{width}"] = np.stack([row.ids for row in rows]).astype(kind)
        arrays[f"places-{width}"] = np.stack([row.places for row in rows])
        arrays[f"weights-{width}"] = np.stack([row.weights for row in rows])
        arrays[f"pointers-{width}"] = np.stack([row.pointers for row in rows])
    out = Path(spec.out)
    partial = out.with_suffix(".tmp.npz")
    np.savez(partial, allow_pickle=False, **arrays)
    partial.replace(out)
    return out


if __name__ == "__main__":
    build_shard(ShardSpec(**json.loads(Path(sys.argv[1]).read_text())))
