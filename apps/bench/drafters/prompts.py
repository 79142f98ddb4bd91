"""The prompts that are decoded: sentences to correct, questions with passages, dialogues, or a JSONL of one's own.

Knows texts and the form that a model wants them in. Does not know drafters.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.bench.report import say
from apps.gec.metrics.corpora import SAMPLES, MissingSet, load_set, sample_sentences

#: A dialogue of the corpus has no mark of its own; its last turn says good-bye.
_FAREWELL = re.compile(r"\bhave a \w+ (day|time|evening|trip)\b|\bgood ?bye\b", re.IGNORECASE)
_TURNS = 5

Wrap = Callable[[list[str]], str]
"""(turns of a dialogue, the user's first and last) -> the prompt that asks for the next one"""


@dataclass(frozen=True)
class Prompt:
    """One text to decode, and what may be copied from."""

    text: str
    sources: tuple[str, ...] = ()
    prediction: str | None = None


def load_prompts(name: str, data: Path, count: int, wrap: Wrap) -> list[Prompt]:
    """The first `count` prompts of a set, or of a JSONL file with `prompt`, and perhaps `sources` and `prediction`.

    Raises FileNotFoundError where they are absent and ValueError for a name or a row that does not fit.
    """
    if name in READERS:
        return list(itertools.islice(READERS[name](data, wrap), count))
    if not name.endswith(".jsonl"):
        raise ValueError(f"no prompts {name!r}; there are {', '.join(READERS)}, or give a file.jsonl")
    return list(itertools.islice(_own(Path(name)), count))


def chat_wrap(tokenizer: Any) -> Wrap:
    """The tokenizer's own chat template, or plain words where it has none."""

    def wrap(turns: list[str]) -> str:
        roles = itertools.cycle(("user", "assistant"))
        if not getattr(tokenizer, "chat_template", None):
            lines = [f"{role.capitalize()}: {turn}" for role, turn in zip(roles, turns, strict=False)]
            return "\n".join([*lines, "Assistant:"])
        messages = [{"role": role, "content": turn} for role, turn in zip(roles, turns, strict=False)]
        text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return text

    return wrap


def _jfleg(data: Path, wrap: Wrap) -> Iterator[Prompt]:
    try:
        sentences = load_set("jfleg", data).sentences
    except MissingSet as missing:
        say(f"{missing}; measuring on the sentences in {SAMPLES.name} instead")
        sentences = sample_sentences()
    return (Prompt(sentence) for sentence in sentences)


def _rag(data: Path, wrap: Wrap) -> Iterator[Prompt]:
    for row in _rows(data / "qa/llma_rag.jsonl"):
        passages = "\n".join(row["docs"])
        asked = f"docs:\n{passages}\nquery: {row['query']}\nanswer:"
        yield Prompt(wrap([asked]), tuple(row["docs"]))


def _chat(data: Path, wrap: Wrap) -> Iterator[Prompt]:
    """Dialogues up to their third question."""
    path = _present(data / "text/sgd_dialogues.txt.gz")
    turns: list[str] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in map(str.strip, lines):
            turns.append(line)
            if _FAREWELL.search(line):
                if len(turns) > _TURNS:
                    yield Prompt(wrap(turns[:_TURNS]))
                turns = []


def _own(path: Path) -> Iterator[Prompt]:
    for number, row in enumerate(_rows(path), 1):
        text, sources = row.get("prompt"), row.get("sources", [])
        if not isinstance(text, str) or not text:
            raise ValueError(f"{path}, line {number}: every row needs a text `prompt`, not {text!r}")
        if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
            raise ValueError(f"{path}, line {number}: `sources` must be a list of texts")
        yield Prompt(text, tuple(sources), row.get("prediction"))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with _present(path).open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _present(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"{path} is not here; give the folder of the prompts with --data")
    return path


READERS: dict[str, Callable[[Path, Wrap], Iterator[Prompt]]] = {"jfleg": _jfleg, "rag": _rag, "chat": _chat}
