"""The layout of the chat model's hidden state: which of its dimensions hold what."""

from __future__ import annotations

import torch

from .first_embeddings import MATCH, OWN, REST

#: Widths of a sentence's name, of a passage's number as it is found, and of what an answer keeps of the name.
NAME, NUMBER, KEPT = 60, 16, 28
# Sizes of all parts, in order.
_SIZES = (
    *(REST, MATCH, OWN, MATCH, 32, 32, 10, 4, 32, 32, 32, 32),
    *(NAME, NAME, 1, 1, 1, 1, 4, 4, 4, KEPT, 32, 32, 1, 74),
)
#: Width of the hidden state.
WIDTH = sum(_SIZES)


class Stream:
    """Where in the hidden state what is kept (each `[n, W]`), so that what one head writes is no noise to another."""

    def __init__(self) -> None:
        parts = torch.eye(WIDTH).split(_SIZES)
        #: Three parts of an embedding: constant and weight; alike for forms of a word; its own.
        self.rest, self.match, self.own = parts[:3]
        self.constant, self.weight = self.rest[:2]
        #: Match readings of the tokens before; flags for three tokens of a beginning, and the number of a passage.
        self.back, self.flags = parts[3:7], parts[7]
        self.first, self.second, self.before, self.number, self.mixed, self.name = parts[8:14]
        #: Of the word before: whether the question has it, and whether its sentence had it before.
        self.hit, self.again = parts[14][0], parts[15][0]
        #: What the question finds in the sentence so far, and in the title of its passage.
        self.sum, self.title = parts[16][0], parts[17][0]
        #: Place in the text, that of the sentence's beginning, place in the sentence: by two clocks, cosine and sine.
        self.place, self.start, self.offset = parts[18:21]
        self.chosen, self.say, self.cite = parts[21:24]
        #: What the question could find at most.
        self.total = parts[24][0]
