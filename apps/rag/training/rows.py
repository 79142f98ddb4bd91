"""Token rows of a fixed width out of conversations and of plain text, with what is learnt in them.

A row has `width` tokens and at most `width // 4` targets: places whose next token counts, each with a weight. In
conversations those are the tokens of answers, in plain text some of all. Every answer comes with a pointer to what it
quotes.

The chat asks one question at a time. So a row reads its passages once, and each of its questions is a branch of its own
that sees the passages and no other question, in place and in attention (as a draft tree does). Where the template puts
the question before the passages, as chat-small's does, a row has one question.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Any

import numpy as np

from apps.rag.prompts import ABSTENTION, Passage, answer_messages, numbered

from .conversations import Conversation, Library, Shape, Turn

SHAPES = {
    256: Shape((1, 2), 3),
    512: Shape((1, 3), 4),
    1024: Shape((2, 6), 6),
}
#: A row has room for a pointer, and so for a question, for every so many tokens.
TOKENS_PER_POINTER = 32
# Weights are kept as twentieths, in a byte.
UNIT = 20
# Of the prompt nothing is learnt: what cannot be foreseen there has far larger gradients than what is copied.
_READING, _CHOICE, _SECOND, _COPY, _REFUSAL = 0, 80, 50, 20, 8


@dataclass(frozen=True)
class Row:
    """Ids `[width]`, and the places `[width // 4]` whose next token is learnt, with weights in twentieths.

    `pointers` `[width // 32, 4]` is (place, start, count, branch) for each answer: what follows `place` are the `count`
    tokens from `start`, where the passage (or the instruction, for an abstention) has them; its branch begins at
    `branch`. Zeros fill up.
    """

    ids: np.ndarray
    places: np.ndarray
    weights: np.ndarray
    pointers: np.ndarray


@dataclass
class Rendered:
    """Turns as tokens: ids, the weight of each (0 outside answers), pointers as in `Row`."""

    ids: list[int] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)
    pointers: list[tuple[int, int, int, int]] = field(default_factory=list)


def encode(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a piece of a rendered conversation."""
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return ids


class Renderer:
    """Conversations as tokens, through the chat template of a tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def text(self, messages: list[dict[str, str]], prompt: bool) -> str:
        """A conversation as text, up to where the assistant speaks if `prompt`."""
        out: str = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt)
        return out

    def turns(self, conversation: Conversation, width: int, targets: int, is_brief: bool = False) -> Rendered:
        """As many turns as fit into `width` tokens and `targets` learnt ones, each a branch behind the passages.

        Brief answers end, unlearnt, behind their second token: what is hard is the choice, and more of them fit.
        """
        out = Rendered()
        passages = conversation.passages
        for turn in islice(conversation.turns(), width // TOKENS_PER_POINTER):
            said = answer_messages(turn.question, passages)
            asked = self.text(said, prompt=True)
            answered = self.text([*said, {"role": "assistant", "content": turn.answer}], prompt=False)
            read = _Read(self.tokenizer, asked, passages)
            shared = out.pointers[0][3] if out.pointers else read.question
            answer = encode(self.tokenizer, answered[len(asked) :])
            marks = answer_weights(len(answer), turn)
            if is_brief:
                answer, marks = [*answer[:2], answer[-1]], [*marks[:2], 0]
            learnt = sum(w > 0 for w in out.weights) + len(marks)
            begin = len(out.ids) or shared
            asks = read.ids[shared:]
            if begin + len(asks) + len(answer) > width or learnt > targets:
                break
            if not out.ids:
                out.ids, out.weights = read.ids[:shared], [0] * shared
            # A template that asks first, or a tokenizer that joins passages and question, gives it no place here.
            if read.ids[:shared] != out.ids[:shared]:
                continue
            out.pointers.append((begin + len(asks) - 1, *read.quotation(turn, answer), begin))
            out.ids += asks + answer
            out.weights += [0] * len(asks) + marks
        return out


class _Read:
    """A prompt up to the answer: where in it the question begins, and something that is quoted stands."""

    def __init__(self, tokenizer: Any, text: str, passages: list[Passage]) -> None:
        self.text = text
        found = tokenizer(text, add_special_tokens=False, verbose=False, return_offsets_mapping=True)
        self.ids: list[int] = found["input_ids"]
        self.begins = [begin for begin, _ in found["offset_mapping"]]
        first = text.find(numbered(passages))
        self.blocks = [first + len(numbered(passages[:k])) for k in range(len(passages))]
        #: The first token that belongs to the question alone.
        self.question = bisect_left(self.begins, first + len(numbered(passages)))

    def quotation(self, turn: Turn, answer: list[int]) -> tuple[int, int]:
        """The first token of what a turn quotes, and how many tokens of the answer stand there."""
        sentence = turn.answer.rpartition(" [")[0] if turn.number else ABSTENTION
        at = self.text.find(sentence, self.blocks[turn.number - 1] if turn.number else 0)
        if at < 0:
            return 0, 0
        start = bisect_right(self.begins, at) - 1
        here = self.ids[start : start + len(answer)]
        count = next((k for k, (a, b) in enumerate(zip(answer, here, strict=False)) if a != b), len(here))
        return start, count


def answer_weights(count: int, turn: Turn) -> list[int]:
    """The choice of the sentence counts most, copying it least, the citation a little more."""
    if turn.answer == ABSTENTION:
        return [_CHOICE] + [_REFUSAL] * (count - 1)
    marks = [_COPY] * count
    marks[0] = _CHOICE
    marks[1:3] = [_SECOND] * len(marks[1:3])
    for k in range(max(3, count - 4), count):
        marks[k] = _SECOND
    return marks


def conversation_row(
    library: Library,
    renderer: Renderer,
    width: int,
    rng: Random,
    pad: int,
    real: bool,
    is_brief: bool = False,
) -> Row | None:
    """One conversation that fits; fewer passages are tried where the first turn does not."""
    shape = SHAPES.get(width, Shape((1, 8), 9))
    low, high = shape.passages
    for _ in range(4):
        conversation = Conversation(library, Shape((low, high), shape.sentences), rng, real)
        rendered = renderer.turns(conversation, width, width // 4, is_brief)
        if rendered.ids:
            return _row(rendered, width, rng, pad)
        high = max(1, high - 2)
        low = min(low, high)
    return None


def text_row(library: Library, tokenizer: Any, width: int, rng: Random, pad: int) -> Row:
    """Passages to read; in half the rows their sentences come again, in another order."""
    sentences: list[str] = []
    ids: list[int] = []
    again = rng.random() < 0.5
    limit = width // 2 if again else width
    while len(ids) < limit:
        document = library.draw(rng, rng.random() < 0.3)
        sentences += document.sentences
        ids += encode(tokenizer, document.text + "\n\n")
    weights = [0] * len(ids)
    while again and len(ids) < width:
        piece = encode(tokenizer, rng.choice(sentences) + " ")
        ids += piece
        weights += [0] * min(2, len(piece)) + [_COPY] * (len(piece) - 2)
    return _row(Rendered(ids[:width], weights[:width]), width, rng, pad, reading=8)


def _row(rendered: Rendered, width: int, rng: Random, pad: int, reading: int = _READING) -> Row:
    """Lays out ids; `weights[k]` is that of predicting `ids[k]`, at place `k - 1`."""
    ids, weights = rendered.ids, rendered.weights
    chosen = {k - 1: w for k, w in enumerate(weights) if w and k}
    room = width // 4 - len(chosen)
    if room < 0:
        chosen = dict(rng.sample(sorted(chosen.items()), width // 4))
    free = [k for k in range(len(ids) - 1) if k not in chosen]
    for k in rng.sample(free, min(max(room, 0), len(free))) if reading else ():
        chosen[k] = reading
    places = np.zeros(width // 4, dtype=np.uint16)
    marks = np.zeros(width // 4, dtype=np.uint8)
    for slot, (place, weight) in enumerate(sorted(chosen.items())):
        places[slot], marks[slot] = place, weight
    padded = np.full(width, pad, dtype=np.uint32)
    padded[: len(ids)] = ids
    pointers = np.zeros((width // TOKENS_PER_POINTER, 4), dtype=np.uint16)
    if rendered.pointers:
        pointers[: len(rendered.pointers)] = rendered.pointers
    return Row(padded, places, marks, pointers)
