"""Recorded answers: LLMA's (Yang et al. 2304.04487), 100 answers from ten passages each and 100 summaries."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SETS = {"rag": "qa/llma_rag.jsonl", "cnndm": "qa/llma_cnndm.jsonl"}
#: Summaries were recorded behind their number.
_NUMBER = re.compile(r"^\d+####")


@dataclass(frozen=True)
class Item:
    """One recording as token ids: the prompt holds the passages, `output` is what was answered."""

    prompt: list[int]
    sources: list[list[int]]
    output: list[int]


def load_items(path: Path, encode: Callable[[str], list[int]], limit: int) -> list[Item]:
    """The first `limit` recordings; passages stand in the prompt as LLMA's own program puts them."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is not here; give the folder of the recordings with --data")
    items = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            passages = "\n".join(row["docs"])
            is_whole = row["docs"][0] in row["query"]
            prompt = row["query"] if is_whole else f"docs:\n{passages}\nquery: {row['query']}\nanswer:"
            answer = _NUMBER.sub("", row["result"]["text"])
            items.append(Item(encode(prompt), [encode(passage) for passage in row["docs"]], encode(answer)))
            if len(items) == limit:
                break
    return items
