"""Token rows of a fixed width out of conversations and of plain text, with what is learnt in them.

A row has `width` tokens and `width // 4` targets: places whose next token counts, each with a weight. Answers come
first; what is left of the targets falls on places of the prompt, so that reading is learnt on the side.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from apps.rag.prompts import ABSTENTION, INSTRUCTION, user_turn

from .conversations import Conversation, Library, Shape, Turn

SHAPES = {
    256: Shape((1, 2), 3),
    512: Shape((1, 4), 5),
    1024: Shape((2, 8), 9),
}
# Weights are kept as twentieths, in a byte.
UNIT = 20
_READING, _CHOICE, _SECOND, _COPY, _REFUSAL = 2, 80, 50, 20, 8


@dataclass(frozen=True)
class Row:
    """Ids `[width]`, and the places `[width // 4]` whose next token is learnt, with weights in twentieths."""

    ids: np.ndarray
    places: np.ndarray
    weights: np.ndarray


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

    def turns(self, conversation: Conversation, width: int, targets: int) -> tuple[list[int], list[int]]:
        """Ids and their weights (0 outside answers) of as many turns as fit."""
        messages = [{"role": "system", "content": INSTRUCTION}]
        ids: list[int] = []
        weights: list[int] = []
        so_far = ""
        passages = conversation.passages
        for turn in conversation.turns():
            said = [*messages, {"role": "user", "content": user_turn(turn.question, passages)}]
            asked = self.text(said, prompt=True)
            said.append({"role": "assistant", "content": turn.answer})
            answered = self.text(said, prompt=False)
            before = encode(self.tokenizer, asked[len(so_far) :])
            answer = encode(self.tokenizer, answered[len(asked) :])
            if len(ids) + len(before) + len(answer) > width:
                break
            marks = answer_weights(len(answer), turn)
            if sum(w > 0 for w in weights) + len(marks) > targets:
                break
            ids += before + answer
            weights += [0] * len(before) + marks
            messages, so_far, passages = said, answered, []
        return ids, weights


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
    library: Library, renderer: Renderer, width: int, rng: Random, pad: int, real: bool
) -> Row | None:
    """One conversation that fits; fewer passages are tried where the first turn does not."""
    shape = SHAPES.get(width, Shape((1, 8), 9))
    low, high = shape.passages
    for _ in range(4):
        conversation = Conversation(library, Shape((low, high), shape.sentences), rng, real)
        ids, weights = renderer.turns(conversation, width, width // 4)
        if ids:
            return _row(ids, weights, width, rng, pad)
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
    return _row(ids[:width], weights[:width], width, rng, pad, reading=8)


def _row(
    ids: list[int], weights: list[int], width: int, rng: Random, pad: int, reading: int = _READING
) -> Row:
    """Lays out ids; `weights[k]` is that of predicting `ids[k]`, at place `k - 1`."""
    chosen = {k - 1: w for k, w in enumerate(weights) if w and k}
    room = width // 4 - len(chosen)
    if room < 0:
        chosen = dict(rng.sample(sorted(chosen.items()), width // 4))
    free = [k for k in range(len(ids) - 1) if k not in chosen]
    for k in rng.sample(free, min(max(room, 0), len(free))):
        chosen[k] = reading
    places = np.zeros(width // 4, dtype=np.uint16)
    marks = np.zeros(width // 4, dtype=np.uint8)
    for slot, (place, weight) in enumerate(sorted(chosen.items())):
        places[slot], marks[slot] = place, weight
    padded = np.full(width, pad, dtype=np.uint32)
    padded[: len(ids)] = ids
    return Row(padded, places, marks)
