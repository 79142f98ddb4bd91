"""The tokens that structure what the chat model reads: ends of sentences and lines, brackets, turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.rag.prompts import ABSTENTION

from .tokenizer import ASSISTANT, END, SYSTEM, USER


@dataclass(frozen=True)
class Marks:
    """Ids of the tokens that structure what is read; the first three begin lines that are never quoted."""

    question: int
    bracket: int
    heading: int
    full_stop: int
    line_end: int
    bracket_after_space: int
    nothing: int
    space: int
    bracket_end: int
    system: int = SYSTEM
    assistant: int = ASSISTANT
    user: int = USER
    end: int = END

    @classmethod
    def of(cls, tokenizer: Any) -> Marks:
        """Those of a tokenizer of this package."""

        def last(text: str) -> int:
            return int(tokenizer(text, add_special_tokens=False)["input_ids"][-1])

        first = int(tokenizer(ABSTENTION, add_special_tokens=False)["input_ids"][0])
        space = int(tokenizer(" A", add_special_tokens=False)["input_ids"][0])
        question = int(tokenizer("Question", add_special_tokens=False)["input_ids"][0])
        return cls(question, last("["), last("#"), last("."), last("\n"), last(" ["), first, space, last("]"))
