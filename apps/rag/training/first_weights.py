"""First weights for the chat model: a few heads that already read, choose and copy.

Learning that from nothing takes a small model far more text than two cores read in a day. So some heads start as what
training would find (Olsson et al. 2022, "In-context Learning and Induction Heads"), one step to a layer:

0. who stands one to four tokens back, and where sentences begin;
1. what tells this sentence from others: its first two words, the last one before it, the number of its passage. From
   that the inner units of layers 1 and 2 make names, of equal length and hardly alike even where sentences are;
2. how far it is from the beginning of the text, by two rotations, a slow and a faster one;
3. where the words of the question stand: in which sentences, or in a passage's title. A word that stands nowhere finds
   nothing. And how far each token is from where its sentence begins;
4. where an answer begins: what the words of the question found, rare words above all;
5. there too: which sentence that is, the one that most of them found; its first word, its number;
6. in the rest of the answer: what was chosen where it began. So an answer never changes its sentence half-way;
7. of the chosen sentence, what follows the last four tokens there, at the place that comes next. The inner layer then
   says what no token before it tells: the first word of the sentence; where it ends, the brackets with its number, and
   the end.

Everything else is zero. Only what layers 5 and 7 look for is trained; `pointing` supervises a head in
each.
"""

from __future__ import annotations

from dataclasses import astuple
from itertools import product
from math import cos, pi, sin
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from .first_embeddings import CONSTANT, LINES, MATCH, OWN, first_embeddings
from .gains import Gains
from .heads import Heads
from .marks import Marks
from .stream import KEPT, NAME, NUMBER, WIDTH, Stream
from .tokenizer import ASSISTANT, END, USER

# Flags: behind the beginning of a sentence (0 to 2), at the number of a passage.
_NUMBERED = 3
# How much more is made of a flag where it is read than it was written: a long one would make all else there shorter.
_FLAG = 2.7
# How strongly the tokens before are written, and how much longer they then are than the token itself.
_BACK = 0.052
_SEEN_BACK = 1.09
# How much weaker the fourth of them is written.
_FAR = 3
# Two clocks: which pair of a head's dimensions turns. The slow one knows places far apart, the fast one near ones.
_CLOCKS = (7, 5)
# Those by which their heads see what is near: not the clocks' own, so that both see as much.
_NEAR = [pair for pair in range(4, 17) if pair not in _CLOCKS]

#: Which layer and head points at the sentence that is quoted, and which at the token that comes next.
SENTENCE_HEAD, TOKEN_HEAD = (5, 0), (7, 0)


class _Program:
    """The heads of the module's description, a method for each layer."""

    def __init__(self, model: LlamaForCausalLM, marks: Marks, gains: Gains) -> None:
        self.model, self.heads, self.stream = model, Heads(model), Stream()
        self.marks, self.gains = marks, gains
        self.embeddings = model.model.embed_tokens.weight.data.clone()
        self.one = self.stream.constant
        self._units = 0

    def write(self) -> None:
        """Write all of them."""
        self._scale()
        self._stand_behind()
        self._begin_sentences()
        self._count()
        self._find_words()
        self._gather()
        self._choose()
        self._keep()
        self._copy()

    def _scale(self) -> None:
        """Make what is read as long as it was in a stream of 512, for which the gains were found."""
        for weight in self.model.parameters():
            if weight.ndim == 1:
                weight.mul_((512 / WIDTH) ** 0.5)

    def _is(self, token: int, part: Tensor | None = None) -> Tensor:
        """The direction `[W]` that tells a token of `marks`, here or in a part that holds a match reading of it.

        Other tokens have no share in it.
        """
        place = astuple(self.marks).index(token)
        return (MATCH / 32) ** 0.5 * (self.stream.match if part is None else part)[place]

    def _began(self, line: int) -> Tensor:
        """The direction that tells the tokens of a line that began with one of the first marks."""
        return self.stream.first[astuple(self.marks).index(line)]

    def _stand_behind(self) -> None:
        stream = self.stream
        for k, part in enumerate(stream.back):
            self.heads.looks(0, k, slice(0, 11), 1.5 * self.one, 1.5 * self.one, 1.0 + k)
            # The fourth must not make what stands behind a full stop longer.
            read, gain = (stream.match[: len(part)], _BACK) if k < 3 else (self._far(), _BACK / _FAR)
            self.heads.carries(0, k, read, part, gain)
        for words in range(3):
            self._mark_beginning(words)
        starts = self._is(self.marks.line_end, stream.back[1]) + self._is(USER, stream.back[1])
        self._mark(_NUMBERED, self._is(self.marks.bracket, stream.back[0]), starts)

    def _far(self) -> Tensor:
        """What is kept of the fourth token before, `[9, W]`: whether it is a full stop, and a part of its match."""
        part = self.stream.back[3]
        return torch.cat((self._is(self.marks.full_stop)[None], self.stream.match[33 - len(part) : 32]))

    def _mark_beginning(self, words: int) -> None:
        """Mark the token so many words behind the beginning of a sentence."""
        back, marks, gains = self.stream.back, self.marks, self.gains
        # As much as for the full stop below: a beginning that is marked more would be the nearest for longer.
        line = gains.line * (self._is(marks.line_end, back[words]) + self._is(USER, back[words]))
        # An answer's is: the line of a short question begins near it.
        line = line + gains.turn * self._is(ASSISTANT, back[words])
        # Of two line ends, only the second begins anything.
        here = self._is(marks.line_end, back[words - 1]) / _SEEN_BACK if words else self._is(marks.line_end)
        self._mark(words, line, self.one * (3**-0.5 / CONSTANT) - here)
        # A full stop and then the space before a capital letter.
        stop = _FAR * back[3][0] if words == 2 else self._is(marks.full_stop, back[words + 1])
        self._mark(words, stop, self._is(marks.space, back[words]))

    def _mark(self, flag: int, condition: Tensor, also: Tensor) -> None:
        """Raise a flag where both directions `[W]` are seen."""
        self.heads.says(0, self._units, condition, also[None], self.stream.flags[flag][None], self.gains.mark)
        self._units += 1

    def _begin_sentences(self) -> None:
        heads, stream = self.heads, self.stream
        # Of a word before, what is not one of the marks.
        before = stream.back[2][-len(stream.before) :]
        read = torch.cat((stream.own, before))
        write = torch.cat((stream.first, self.gains.before * stream.before))
        for head, pairs, flag, source, target in (
            (0, slice(9, 18), 0, read, write),
            (1, slice(9, 18), 1, stream.own, stream.second),
            (2, slice(10, 18), _NUMBERED, stream.own, stream.number),
        ):
            key = _FLAG * self.gains.begins * stream.flags[flag]
            heads.looks(1, head, pairs, self.gains.begins * self.one, key, 0.0)
            heads.carries(1, head, source, target, 0.06)
        self._name_sentences()

    def _name_sentences(self) -> None:
        """A name for each sentence: products of what tells it from others.

        So two that share some of that, as those of a passage its number, have names that are hardly alike.
        """
        heads, stream, gains = self.heads, self.stream, self.gains
        generator = torch.Generator().manual_seed(1)

        def mixed(*parts: Tensor) -> Tensor:
            read = torch.cat(parts)
            return torch.randn(NAME, len(read), generator=generator) @ read / len(read) ** 0.5

        some, others = mixed(stream.first, stream.before), mixed(stream.second, stream.before, stream.number)
        # silu(a) b + silu(-a) (-b) = a b
        for k, sign in enumerate((1, -1)):
            heads.says(1, k * NAME, sign * some, sign * others, stream.mixed, gains.mixed)
        # Names of equal length: silu(a + 1) - silu(a - 1) - 1 is about the sign of a.
        one = gains.one * self.one.expand(NAME, -1)
        for k, sign in enumerate((1, -1)):
            sharp = gains.sharp * stream.mixed + sign * one
            heads.says(2, k * NAME, sharp, one, sign * stream.name, gains.name)
        every = stream.name.sum(0, keepdim=True)
        heads.says(2, 2 * NAME, 8 * one[0], one[:1], -every / 8, gains.name)
        # A word of a title speaks for every sentence of its passage.
        number = stream.number[:NUMBER]
        heads.says(2, 2 * NAME + 1, self._began(self.marks.bracket), number, stream.titled, 0.02)

    def _count(self) -> None:
        """The place in the sentence: how far two rotations have turned here and at the beginning.

        Two heads for each weigh the first token of all, to which the rotation comes nearer and goes further, against
        the tokens near here.
        """
        heads, stream, gains = self.heads, self.stream, self.gains
        first = self._is(self.marks.system)
        # Constant, but nothing in the first token of all.
        any_other = self.one - 3**0.5 * CONSTANT * first
        for head, (pair, phase) in enumerate(product(_CLOCKS, (0.0, -pi / 2))):
            heads.looks(2, head, _NEAR, gains.here * self.one, gains.here * any_other, 0.0)
            heads.turns(2, head, pair, gains.turned * self.one, gains.turned * first, phase)
            heads.prefers(2, head, 63, gains.level * self.one, gains.level * first)
            heads.carries(2, head, (gains.far * first - any_other)[None], stream.place[head][None], 0.065)
        heads.looks(3, 1, slice(9, 18), gains.begins * self.one, _FLAG * gains.begins * stream.flags[0], 0.0)
        heads.carries(3, 1, stream.place, stream.start, 0.12)
        for clock in range(len(_CLOCKS)):
            self._turn_back(clock)

    def _turn_back(self, clock: int) -> None:
        """By how much a clock has turned since the sentence began."""
        stream, pair = self.stream, slice(2 * clock, 2 * clock + 2)
        (cos, sin), (cos_start, sin_start) = stream.place[pair], stream.start[pair]
        some, others = (
            torch.stack((cos, sin, sin, cos)),
            torch.stack((cos_start, sin_start, cos_start, -sin_start)),
        )
        written = stream.offset[pair][[0, 0, 1, 1]]
        for k, sign in enumerate((1, -1)):
            unit = 4 * (2 * clock + k)
            self.heads.says(3, unit, sign * some, sign * others, written, self.gains.offset)

    def _find_words(self) -> None:
        heads, stream, gains, marks = self.heads, self.stream, self.gains, self.marks
        # Not the marks. Where the word before is the same too, pieces of a name and phrases find more.
        plain = slice(len(astuple(marks)), None)
        here = torch.cat((stream.match[plain], gains.phrase * stream.back[0][plain]))
        there = torch.cat((stream.back[0][plain], stream.back[1][plain]))
        heads.matches(3, 0, slice(36, 62), here, there, gains.match)
        # Most looks where there is nothing: so every place where a word stands counts the same, be they one or ten.
        heads.prefers(3, 0, 63, gains.nowhere * self.one, gains.nowhere * self._is(marks.system))
        # Only for the question: what a passage finds would make the keys of its tokens unequal.
        asked = gains.asked * (self.one - gains.question * self._began(marks.question))
        heads.prefers(3, 0, 35, asked, gains.asked * self._is(marks.system))
        read = torch.cat((stream.name, gains.title * stream.titled))
        heads.carries(3, 0, read, stream.found, gains.vote)

    def _gather(self) -> None:
        """Where an answer begins: the tokens of the line that begins with "Question", by their weights."""
        heads, stream, gains, marks = self.heads, self.stream, self.gains, self.marks
        asked = self._began(marks.question) - 3 * sum(
            self._is(mark) for mark in (ASSISTANT, END, marks.question)
        )
        asks = self._is(ASSISTANT)
        heads.looks(4, 0, slice(16, 23), gains.gather * asks, gains.gather * asked, gains.distance)
        heads.prefers(4, 0, 63, gains.weight * asks, gains.weight * stream.weight)
        self._sleeps(4)
        heads.carries(4, 0, stream.found, stream.found, gains.sum)

    def _sleeps(self, layer: int) -> None:
        """A head that looks where there is nothing, but where an answer begins."""
        silent = self.gains.sleep * (self.one - 4 * self._is(ASSISTANT))
        self.heads.prefers(layer, 0, 61, silent, self.gains.sleep * self._is(self.marks.system))

    def _choose(self) -> None:
        heads, stream, gains, marks = self.heads, self.stream, self.gains, self.marks
        where = torch.cat((stream.name, stream.number[:NUMBER]))
        heads.matches(5, 0, slice(20, 61), stream.found, where, gains.choose)
        # The question finds itself, and titles and headings; none is quoted.
        never = torch.stack([self._began(mark) for mark in astuple(marks)[:LINES]]).sum(0)
        heads.prefers(5, 0, 63, gains.never * self.one, -gains.never * never)
        # Where little is found, the abstention is chosen.
        asks = self._is(ASSISTANT)
        heads.prefers(5, 0, 62, gains.absent * asks, gains.absent * self._is(marks.nothing, stream.back[1]))
        self._sleeps(5)
        read = torch.cat((stream.name[:KEPT], stream.first, stream.number))
        write = torch.cat((stream.chosen, stream.say, stream.cite))
        heads.carries(5, 0, read, write, gains.chosen)

    def _keep(self) -> None:
        heads, stream, gains = self.heads, self.stream, self.gains
        heads.looks(6, 0, slice(11, 19), gains.latch * self.one, gains.latch * self._is(ASSISTANT), 0.0)
        kept = torch.cat((stream.chosen, stream.cite))
        heads.carries(6, 0, kept, kept, gains.kept)

    def _copy(self) -> None:
        heads, stream, gains, marks = self.heads, self.stream, self.gains, self.marks
        # This token and the three before it, in the chosen sentence.
        fourth, far = gains.fourth * stream.back[2][-8:], gains.fourth * _FAR * stream.back[3][-8:]
        here = (stream.match[12:32], stream.back[0][16:32], gains.third * stream.back[1][22:], fourth)
        there = (stream.back[0][12:32], stream.back[1][16:], gains.third * stream.back[2][22:], far)
        # Behind the first token of an answer the second of a sentence follows, then the third.
        begun = gains.begun * torch.stack([self._is(ASSISTANT, part) for part in stream.back[:2]])
        # The fast clock knows near places better.
        counted = gains.counted * torch.tensor([1.0, 1.0, gains.fast, gains.fast])[:, None]
        query = torch.cat((*here, begun, counted * self._next_place(), gains.within * stream.chosen))
        key = torch.cat(
            (
                *there,
                2.7 * gains.begun * stream.flags[1:3],
                counted * stream.offset,
                stream.name[:KEPT],
            )
        )
        heads.matches(7, 0, slice(18, 63), query, key, gains.copy)
        # Nothing is followed where the inner units speak.
        speaks = self._is(ASSISTANT) + sum(
            self._is(marks.bracket_after_space, part) for part in (stream.match, *stream.back[:2])
        )
        heads.prefers(7, 0, 63, gains.begin * speaks, gains.begin * self._is(marks.system))
        # Of where it looks then, nothing may be carried.
        silent = astuple(marks).index(marks.system)
        words = stream.match[[k for k in range(MATCH) if k % 32 != silent]]
        clean = torch.cat((words, stream.own))
        heads.carries(7, 0, clean, clean, gains.copied)
        for k, (condition, read) in enumerate(
            (
                (self._is(ASSISTANT), stream.say),
                (self._is(marks.bracket_after_space), stream.cite),
            )
        ):
            heads.says(7, k * OWN, condition, read, stream.own, gains.say)
        self._end(2 * OWN)

    def _next_place(self) -> Tensor:
        """The place in the sentence one token on, by each clock."""
        angles = [self.heads.angle(pair) for pair in _CLOCKS]
        turns = [torch.tensor([[cos(a), -sin(a)], [sin(a), cos(a)]]) for a in angles]
        return torch.block_diag(*turns) @ self.stream.offset

    def _end(self, unit: int) -> None:
        """After a sentence its number in brackets, and the end, by inner units from `unit` on."""
        heads, stream, marks, gain = self.heads, self.stream, self.marks, self.gains.end
        cited = [self._is(marks.bracket_after_space, part) for part in stream.back[:2]]
        # What is copied stands out far above the token that is here, in the same part.
        copied_line_end = self._is(marks.line_end) - 2 * self.one
        for k, (condition, read, token) in enumerate(
            (
                (self._is(marks.full_stop), self._is(marks.space), marks.bracket_after_space),
                (copied_line_end, 2 * self.one, marks.bracket_after_space),
                (cited[0], 4 * self.one, marks.bracket_end),
                (cited[1], 4 * self.one, END),
            )
        ):
            heads.says(7, unit + k, condition, read[None], self.embeddings[token][None], gain)


def is_large_enough(config: Any) -> bool:
    """Whether a configuration has room for the first weights of the module's description."""
    return (
        isinstance(config, LlamaConfig)
        and config.num_hidden_layers >= 8
        and config.hidden_size == WIDTH
        and config.head_dim == 128
        and config.num_attention_heads == config.num_key_value_heads >= 4
        and config.intermediate_size >= 2 * NAME + 1 + NUMBER
    )


@torch.no_grad()
def write_first_weights(
    model: LlamaForCausalLM,
    tokenizer: Any,
    seed: int = 0,
    gains: Gains | None = None,
    weights: Tensor | None = None,
) -> None:
    """Embeddings in three parts (`weights` as there), and the heads.

    What else is in the model must be small, not to drown them out.
    """
    embedding = model.model.embed_tokens.weight
    table = first_embeddings(tokenizer, len(embedding), seed, weights)
    embedding.zero_()
    embedding[:, : table.shape[1]] = table
    _Program(model, Marks.of(tokenizer), gains or Gains()).write()
