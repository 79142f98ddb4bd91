"""What has to lie in the output folder before training starts: packed text and a tokenizer."""

from __future__ import annotations

from pathlib import Path
from random import Random

from apps.gec.corruption import load_lexicon, treebank, with_literal

from .corpus import Corpus, need_data, pack_corpus
from .tokenizer import load_tokenizer, train_tokenizer, wrap

_TOKENIZER_SENTENCES = 250_000


def prepare(data: Path, out: Path, vocab_size: int) -> None:
    """Packs the text and trains the tokenizer, each once."""
    corpus_folder = out / "corpus"
    if not (corpus_folder / "counts.json").exists():
        pack_corpus(need_data(data), corpus_folder, load_lexicon(data))
    if not (out / "tokenizer" / "tokenizer.json").exists():
        corpus = Corpus.load(corpus_folder)
        rng = Random(1)

        def texts() -> list[str]:
            drawn = [corpus.draw(rng) for _ in range(_TOKENIZER_SENTENCES)]
            return [
                treebank(t) if k % 8 == 0 else with_literal(t, rng) if k % 50 == 1 else t
                for k, t in enumerate(drawn)
            ]

        wrap(train_tokenizer(texts(), vocab_size)).save_pretrained(out / "tokenizer")
    load_tokenizer(out / "tokenizer" / "tokenizer.json")
