"""Training pairs made ahead of time, in a process of their own, as compact token files.

A shard holds the flat token ids of source and target, their lengths, and one bit per target token that says
whether it stands in a corrected place. `python -m apps.gec.training.shards SPEC.json` writes one.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from random import Random

import numpy as np
from tokenizers import Tokenizer

from apps.gec.corruption import CorruptionConfig, Corruptor, curly, load_lexicon, treebank, with_literal

from .corpus import Corpus, Pair, draw_pair, load_pairs, read_pairs
from .tokenizer import load_tokenizer


@dataclass(frozen=True)
class ShardSpec:
    """What one shard is made of; the same spec gives the same shard."""

    data: str
    corpus: str
    tokenizer: str
    out: str
    seed: int
    count: int = 40_000
    real_share: float = 0.04
    real_identity: float = 0.3
    clean_share: float = 0.36
    treebank_share: float = 0.15
    curly_share: float = 0.04
    literal_share: float = 0.03
    max_length: int = 256
    held_out: bool = False
    pairs: str = ""


def make_pair(
    corpus: Corpus, pairs: dict[str, list[Pair]], corruptor: Corruptor, spec: ShardSpec, rng: Random
) -> Pair:
    """One (source, target) pair of the mix."""
    if pairs and rng.random() < spec.real_share:
        src, tgt = draw_pair(pairs, rng, spec.real_identity)
        clean_literal = True
    else:
        tgt = corpus.draw(rng, spec.held_out)
        clean_literal = rng.random() >= spec.literal_share
        if not clean_literal:
            tgt = with_literal(tgt, rng)
        src = corruptor(tgt, rng)
    style = rng.random()
    if style < spec.treebank_share and clean_literal and "://" not in tgt:
        quotes = rng.choice(('"', '"', "``"))
        src, tgt = treebank(src, quotes), treebank(tgt, quotes)
    elif style > 1.0 - spec.curly_share:
        src, tgt = curly(src), curly(tgt)
    return src, tgt


def edited(src: list[int], tgt: list[int]) -> list[bool]:
    """Which target tokens stand in a place that differs from the source (after a deletion: the next one)."""
    marks = [False] * len(tgt)
    head = 0
    limit = min(len(src), len(tgt))
    while head < limit and src[head] == tgt[head]:
        head += 1
    if head == len(src) == len(tgt):
        return marks
    tail = 0
    while tail < limit - head and src[-1 - tail] == tgt[-1 - tail]:
        tail += 1
    a, b = src[head : len(src) - tail], tgt[head : len(tgt) - tail]
    for kind, _, _, start, end in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        for k in range(start, max(end, start + 1)):
            if head + k < len(tgt):
                marks[head + k] = True
    return marks


def encode_pairs(pairs: list[Pair], tokenizer: Tokenizer, max_length: int) -> dict[str, np.ndarray]:
    """Pairs as arrays; pairs longer than the model can read are left out."""
    src_ids = [e.ids for e in tokenizer.encode_batch([src for src, _ in pairs])]
    tgt_ids = [e.ids for e in tokenizer.encode_batch([tgt for _, tgt in pairs])]
    kept = [(s, t) for s, t in zip(src_ids, tgt_ids, strict=True) if max(len(s), len(t)) <= max_length]
    kind = np.uint16 if tokenizer.get_vocab_size() < 65536 else np.uint32
    marks = [mark for s, t in kept for mark in edited(s, t)]
    return {
        "src": np.array([i for s, _ in kept for i in s], dtype=kind),
        "tgt": np.array([i for _, t in kept for i in t], dtype=kind),
        "src_len": np.array([len(s) for s, _ in kept], dtype=np.uint16),
        "tgt_len": np.array([len(t) for _, t in kept], dtype=np.uint16),
        "edited": np.packbits(np.array(marks, dtype=bool)),
    }


def build_shard(spec: ShardSpec) -> Path:
    """Makes the shard of a spec; it appears under its name only when it is whole."""
    rng = Random(spec.seed)
    corpus = Corpus.load(Path(spec.corpus))
    pairs = load_pairs(Path(spec.data))
    if spec.pairs:
        pairs = {"own": read_pairs(Path(spec.pairs))}
    if spec.held_out:
        pairs = {}
    corruptor = Corruptor(load_lexicon(Path(spec.data)), CorruptionConfig(clean_share=spec.clean_share))
    made = [make_pair(corpus, pairs, corruptor, spec, rng) for _ in range(spec.count)]
    arrays = encode_pairs(made, load_tokenizer(Path(spec.tokenizer)), spec.max_length)
    out = Path(spec.out)
    partial = out.with_suffix(".tmp.npz")
    np.savez(partial, allow_pickle=False, **arrays)
    partial.replace(out)
    return out


if __name__ == "__main__":
    build_shard(ShardSpec(**json.loads(Path(sys.argv[1]).read_text())))
