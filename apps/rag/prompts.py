"""What the model reads and how it answers: numbered passages, a question, a quoted sentence with its number.

Knows words only. The training of `chat-small` and the chat send the same messages through here, so that the small
model meets what it was trained on. Does not know tokens, retrieval or LangChain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

#: First message of every conversation. Short: it is read again with every question.
INSTRUCTION = (
    "Answer from the passages. Quote the sentence that tells and cite its passage as [1]. "
    "If no passage tells, say:\nNothing in the documents answers this."
)
#: The whole answer where the passages do not tell: the instruction's last sentence, so that it too is a quotation.
#: Few sentences begin with its first word: whether a model answers at all is one choice of one token.
ABSTENTION = "Nothing in the documents answers this."

#: The template that `chat-small` ships with; each marker is one token of its own, `<|end|>` ends a generation.
#: Turns follow each other without a line end between them.
CHAT_MARKERS = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% set parts = message['content'].split('\n\nQuestion: ') %}"
    "{% set passages = parts[:-1] | join('\n\nQuestion: ') %}"
    "{% set asked = 'Question: ' + parts[-1] + '\n\n' + passages + '\n' %}"
    "{% set content = asked if parts | length > 1 else message['content'] %}"
    "{{ '<|' + message['role'] + '|>' + content + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

# Lines that stand for themselves: list items, quotes, headings, tables, code.
_OWN_LINE = re.compile(r"\s*(?:[-*+>#|]|\d+[.)]\s|```)| {4}|\t")
_CITATION = re.compile(r"\[(\d{1,3})\]")


@dataclass(frozen=True)
class Passage:
    """A piece of a document as the model reads it: a title (document, heading; may be empty) and its text."""

    title: str
    text: str


def compact(text: str) -> str:
    """The text without blank lines and with wrapped lines joined, so that a quoted sentence has no line break.

    List items, tables and code keep their lines.
    """
    lines: list[str] = []
    is_code = joins = False
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        if not line.strip():
            joins = False
        elif is_code or fence or _OWN_LINE.match(line):
            lines.append(line.rstrip())
            joins = not is_code and not fence and not line.lstrip().startswith(("#", "|"))
        elif joins:
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.strip())
            joins = True
        is_code ^= fence
    return "\n".join(lines)


def numbered(passages: Sequence[Passage]) -> str:
    """The passages as `[1] title` and text, numbered from 1, a blank line between them."""
    blocks = []
    for number, passage in enumerate(passages, 1):
        head = " ".join(f"[{number}] {passage.title}".split())
        blocks.append(f"{head}\n{compact(passage.text)}")
    return "\n\n".join(blocks)


def user_turn(question: str, passages: Sequence[Passage]) -> str:
    """The user's message: passages first, then the question on a line of its own."""
    asked = "Question: " + " ".join(question.split())
    return f"{numbered(passages)}\n\n{asked}" if passages else asked


def answer_messages(question: str, passages: Sequence[Passage]) -> list[dict[str, str]]:
    """The conversation for one question, as chat templates want it: instruction, then passages and question."""
    return [
        {"role": "system", "content": INSTRUCTION},
        {"role": "user", "content": user_turn(question, passages)},
    ]


def quoted(sentence: str, number: int) -> str:
    """The answer that quotes `sentence` (already as it stands in `compact` text) from passage `number`."""
    return f"{sentence} [{number}]"


def citations(answer: str, num_passages: int) -> list[int]:
    """Numbers of the passages that the answer cites, in order of appearance, each once; impossible ones left out."""
    found = dict.fromkeys(int(match) for match in _CITATION.findall(answer))
    return [number for number in found if 1 <= number <= num_passages]


def is_abstention(answer: str) -> bool:
    """Whether the answer says that the documents do not tell."""
    return ABSTENTION.rstrip(".").casefold() in " ".join(answer.split()).casefold()
