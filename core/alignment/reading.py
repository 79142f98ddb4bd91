"""Prompts, and perhaps outputs: `.jsonl` files with two keys, any other with a prompt a line; `.gz` is read too."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any, NamedTuple


class Texts(NamedTuple):
    """A prompt, and an output where the file has one."""

    prompt: str
    output: str | None


def read_texts(paths: Seq[Path], prompt_key: str, output_key: str, limit: int) -> list[Texts]:
    """The first `limit` (0: all) of the files, one after the other, each text pair once.

    Raises ValueError for a file that is absent and for a row without `prompt_key`.
    """
    if not paths:
        raise ValueError("no texts; name files with --data")
    found: dict[Texts, None] = {}
    for path in paths:
        for texts in _rows(path, prompt_key, output_key):
            found.setdefault(texts)
    kept = list(itertools.islice(found, limit or None))
    if not kept:
        raise ValueError(f"no prompts in {', '.join(map(str, paths))}")
    return kept


def _rows(path: Path, prompt_key: str, output_key: str) -> Iterator[Texts]:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    opened = gzip.open if path.suffix == ".gz" else open
    is_text = ".jsonl" not in path.suffixes
    with opened(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            if is_text:
                yield Texts(line.strip(), None)
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}, line {number}, is no JSON: {error}") from error
            if not isinstance(row.get(prompt_key), str):
                raise ValueError(
                    f"{path}, line {number}: no text {prompt_key!r}; name the key with --prompt-key"
                )
            yield Texts(row[prompt_key], row.get(output_key))


def encode_prompts(texts: Seq[Texts], tokenizer: Any, max_tokens: int) -> list[list[int]]:
    """Token ids as the engine encodes prompts; longer ones than `max_tokens` are left out."""
    ids = tokenizer([one.prompt for one in texts], add_special_tokens=True)["input_ids"]
    return [one for one in ids if 0 < len(one) <= max_tokens]


def encode_pairs(texts: Seq[Texts], tokenizer: Any, end: int) -> list[tuple[list[int], list[int]]]:
    """Token ids of prompts and given outputs, the end token behind each. Raises ValueError where one is missing."""
    missing = [one.prompt for one in texts if one.output is None]
    if missing:
        raise ValueError(
            f"{len(missing)} of {len(texts)} prompts have no output ({missing[0][:60]!r}); "
            "let the target write them with --outputs target"
        )
    prompts = tokenizer([one.prompt for one in texts], add_special_tokens=True)["input_ids"]
    outputs = tokenizer([one.output for one in texts], add_special_tokens=False)["input_ids"]
    return [(p, [*o, end]) for p, o in zip(prompts, outputs, strict=True)]
