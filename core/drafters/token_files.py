"""Corpora as token ids: given as they are, in a NumPy file, or as text that a tokenizer reads.

Knows files and token ids. Does not know drafters.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

#: Lines that a tokenizer is given at a time.
_LINES = 1000


def read_tokens(
    corpus: Seq[int] | str | Path, vocab_size: int, tokenizer: Any = None
) -> npt.NDArray[np.int64]:
    """Token ids [n] of a list, of a `.npy` file of integers, or of a text file (`.gz` too, needs `tokenizer`).

    Raises ValueError for a file that cannot be read so, and for ids outside the vocabulary.
    """
    if not isinstance(corpus, str | Path):
        return checked(np.asarray(corpus, np.int64), vocab_size, "the corpus")
    path = Path(corpus)
    if not path.is_file():
        raise ValueError(f"there is no corpus file {path}")
    if path.suffix == ".npy":
        return checked(np.load(path, allow_pickle=False), vocab_size, str(path))
    if tokenizer is None:
        raise ValueError(f"{path} is not a .npy file of token ids; give a tokenizer to read it as text")
    ids = [token for line in encode([path], tokenizer) for token in line]
    return checked(np.array(ids, np.int64), vocab_size, str(path))


def checked(tokens: npt.NDArray[Any], vocab_size: int, name: str) -> npt.NDArray[np.int64]:
    """The ids as int64 [n]. Raises ValueError where they are no ids of the vocabulary."""
    if tokens.ndim != 1 or not (len(tokens) == 0 or np.issubdtype(tokens.dtype, np.integer)):
        raise ValueError(
            f"{name} holds {tokens.dtype} {list(tokens.shape)}; token ids are integers in one row"
        )
    if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
        raise ValueError(
            f"{name} has token ids {tokens.min()} to {tokens.max()}, but the model's vocabulary holds {vocab_size}; "
            "tokenize it with the model's own tokenizer"
        )
    return tokens.astype(np.int64)


def encode(paths: Iterable[Path], tokenizer: Any) -> Iterator[list[int]]:
    """Token ids of every line of text, without special tokens; empty lines are left out."""
    for path in paths:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as file:
            lines: list[str] = []
            for line in file:
                if line.strip():
                    lines.append(line.rstrip("\n"))
                if len(lines) == _LINES:
                    yield from tokenizer(lines, add_special_tokens=False)["input_ids"]
                    lines = []
            if lines:
                yield from tokenizer(lines, add_special_tokens=False)["input_ids"]
