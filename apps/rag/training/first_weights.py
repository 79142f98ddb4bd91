"""First weights for the chat model: a few heads that already read, choose and copy.

Learning that from nothing takes a small model far more text than two cores read in a day. So some heads start as what
training would find (Olsson et al. 2022, "In-context Learning and Induction Heads"), one step to a layer:

0. who stands one to four tokens back, and where sentences begin: at lines, and behind a full stop and a space before a
   capital letter, but not behind an abbreviation's;
1. what tells this sentence from others: its first two words, the last one before it, the number of its passage. From
   that the inner units of layers 1 and 2 make names, of equal length and hardly alike even where sentences are;
2. which words of the passages the question has, the rarer the more. The template asks the question before it shows the
   passages, so each word is marked where it stands;
3. which of them stood in the sentence before: a word counts once; and, where an answer begins, how much the question
   could find at most;
4. sums of these marks, over the sentence so far and over the title of its passage;
5. where an answer begins: the end of the sentence that has the highest sum, its name, its first word, its number; or
   the abstention, where no sum is high beside what could be found;
6. in the rest of the answer: what was chosen where it began. So an answer never changes its sentence half-way;
7. of the chosen sentence, what follows the last four tokens there, at the place that comes next. The inner layer then
   says what no token before it tells: the first word of the sentence; where it ends, the brackets with its number, and
   the end.

Layers 4 to 6 also count, by two clocks, how far each token is from where its sentence begins.

A sum is a mean, of which nearly all weight lies on the first token of all, where there is nothing: so what is found
hardly changes the weights, and adds up. That asks for precision. Two sentences with the same words must get the same
sum, to a few per cent; so all parts of the stream are equally long in every token, and a head has no weights but those
that are written here.

Everything else is zero. Only what layers 5 and 7 look for is trained; `pointing` supervises a head in each.
"""

from __future__ import annotations

from dataclasses import astuple
from math import cos, pi, sin
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from .first_embeddings import CONSTANT, LINES, MATCH, OWN, first_embeddings
from .gains import Gains
from .heads import Heads
from .marks import Marks
from .stream import KEPT, NAME, WIDTH, Stream
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
# Those by which heads find the beginning of a sentence and of a passage: as far back as these are long.
_SENTENCE, _PASSAGE = range(1, 15), range(3, 17)

#: Which layer and head points at the sentence that is quoted, and which at the token that comes next.
SENTENCE_HEAD, TOKEN_HEAD = (5, 0), (7, 0)


class _Program:
    """The heads of the module's description, a method for each layer."""

    def __init__(self, model: LlamaForCausalLM, marks: Marks, gains: Gains) -> None:
        self.model, self.heads, self.stream = model, Heads(model), Stream()
        self.marks, self.gains = marks, gains
        self.embeddings = model.model.embed_tokens.weight.data.clone()
        self.one = self.stream.constant
        #: Constant, but nothing in the first token of all.
        self.any_other = self.one - self.stream.match[astuple(marks).index(marks.system)]
        self._units = 0

    def write(self) -> None:
        """Write all of them."""
        self._scale()
        # What a head is not told to look for draws it nowhere.
        for layer in self.heads.layers:
            layer.self_attn.q_proj.weight.zero_()
        self._stand_behind()
        self._begin_sentences()
        self._find_words()
        self._mark_again()
        self._weigh_question()
        self._gather()
        self._count()
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
        length = (MATCH / 32) ** 0.5 if token != self.marks.system else 3**-0.5 / CONSTANT
        return length * (self.stream.match if part is None else part)[place]

    def _is_short(self, part: Tensor) -> Tensor:
        """The direction `[W]` that tells an abbreviation in a part that holds a match reading of it."""
        return (MATCH / 32) ** 0.5 * part[len(astuple(self.marks))]

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
        """What is kept of the fourth token before, `[10, W]`: whether it ends or is short, and a part of its match."""
        part = self.stream.back[3]
        ends = torch.stack((self._is(self.marks.full_stop), self._is_short(self.stream.match)))
        return torch.cat((ends, self.stream.match[34 - len(part) : 32]))

    def _mark_beginning(self, words: int) -> None:
        """Mark the token so many words behind the beginning of a sentence."""
        back, marks, gains = self.stream.back, self.marks, self.gains
        # As much as for the full stop below: a beginning that is marked more would be the nearest for longer.
        before = (marks.line_end, marks.system, USER)
        line = gains.line * torch.stack([self._is(mark, back[words]) for mark in before]).sum(0)
        # An answer's is: the line of a short question begins near it.
        line = line + gains.turn * self._is(ASSISTANT, back[words])
        # Of two line ends, only the second begins anything.
        here = self._is(marks.line_end, back[words - 1]) / _SEEN_BACK if words else self._is(marks.line_end)
        # Nor does the first token of all, behind which nothing stands but itself.
        self._mark(words, line, self.any_other * (3**-0.5 / CONSTANT) - here)
        # A full stop that is not an abbreviation's, and then the space before a capital letter.
        stop = _FAR * back[3][0] if words == 2 else self._is(marks.full_stop, back[words + 1])
        short = (self._is_short(back[2]), _FAR * back[3][1], 0.0 * self.one)[words]
        self._mark(words, stop, self._is(marks.space, back[words]) - gains.short * short)

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
            (0, _SENTENCE, 0, read, write),
            (1, _SENTENCE, 1, stream.own, stream.second),
            (2, _PASSAGE, _NUMBERED, stream.own, stream.number),
        ):
            key = _FLAG * self.gains.begins * stream.flags[flag]
            heads.nearest(1, head, pairs, self.gains.begins * self.one, key)
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
            # The first token of all has none: heads look there that find nothing.
            heads.says(
                2,
                k * NAME,
                sharp,
                gains.one * self.any_other.expand(NAME, -1),
                sign * stream.name,
                gains.name,
            )
        every = stream.name.sum(0, keepdim=True)
        heads.says(2, 2 * NAME, 8 * one[0], gains.one * self.any_other[None], -every / 8, gains.name)

    def _find_words(self) -> None:
        """Which words of the passages the question has: at the token behind them, by the question's weights."""
        heads, stream, gains, marks = self.heads, self.stream, self.gains, self.marks
        count, silent = len(astuple(marks)), astuple(marks).index(marks.system)
        plain = [k for k in range(count + 1, MATCH) if k % 32 != silent]
        here = torch.cat((stream.back[0][plain], gains.phrase * stream.back[1][count + 1 :]))
        there = torch.cat((stream.match[plain], gains.phrase * stream.back[0][count + 1 : 32]))
        heads.matches(2, 3, slice(36, 62), here, there, gains.match)
        nothing = self._is(marks.system)
        heads.prefers(2, 3, 63, gains.nowhere * self.one, gains.nowhere * nothing)
        question = self._began(marks.question)
        # The question itself finds nothing.
        heads.prefers(2, 3, 35, gains.asked * (self.one - gains.question * question), gains.asked * question)
        heads.prefers(2, 3, 62, gains.weight * self.one, gains.weight * stream.weight)
        # In a text without a question nothing is found, wherever the head looks.
        heads.carries(2, 3, question[None], stream.hit[None], gains.vote)

    def _mark_again(self) -> None:
        """Whether the word before stood in this sentence already: it counts once."""
        heads, stream, gains, marks = self.heads, self.stream, self.gains, self.marks
        plain = slice(len(astuple(marks)) + 1, 32)
        word, same = gains.word, gains.same
        here = torch.cat((word * stream.back[0][plain], same * stream.name))
        there = torch.cat((word * stream.back[1][plain], same * stream.name))
        heads.matches(3, 2, slice(16, 63), here, there, 1.0)
        heads.prefers(3, 2, 63, gains.fresh * self.one, gains.fresh * self._is(marks.system))
        heads.carries(3, 2, self.any_other[None], stream.again[None], gains.again)

    def _gather(self) -> None:
        """What the question finds in each sentence so far, and in the title of its passage: sums, not means.

        Most of such a head looks where there is nothing, so that what it finds elsewhere hardly changes the weights.
        """
        heads, stream, gains, marks = self.heads, self.stream, self.gains, self.marks
        nothing = self._is(marks.system)
        heads.matches(4, 0, slice(20, 60), stream.name, stream.name, gains.within_sum)
        heads.prefers(4, 0, 63, gains.nothing * self.one, gains.nothing * nothing)
        # A word counts once. Where a sentence begins, the flags make all else a little shorter.
        once = gains.early * stream.flags[1:3].sum(0) - gains.once * stream.again
        heads.prefers(4, 0, 62, gains.once * self.one, once)
        heads.carries(4, 0, stream.hit[None], stream.sum[None], gains.sum)
        heads.matches(4, 1, slice(20, 60), stream.number, stream.number, gains.titled)
        heads.prefers(4, 1, 63, gains.untitled * self.one, gains.untitled * nothing)
        began = self._began(marks.bracket)
        heads.prefers(4, 1, 62, gains.heading * self.one, gains.heading * began)
        heads.carries(4, 1, stream.hit[None], stream.title[None], gains.title)

    def _weigh_question(self) -> None:
        """Where an answer begins, what could be found at most: all words of the question, the rarer the more."""
        heads, stream, gains = self.heads, self.stream, self.gains
        question = self._began(self.marks.question)
        heads.prefers(3, 0, 61, gains.asking * self._is(ASSISTANT), gains.asking * question)
        heads.prefers(3, 0, 62, gains.telling * self.one, gains.telling * stream.weight)
        heads.prefers(3, 0, 63, gains.unasked * self.one, gains.unasked * self._is(self.marks.system))
        heads.carries(3, 0, question[None], stream.total[None], gains.total)

    def _count(self) -> None:
        """The place in the sentence: how far two rotations have turned here and at the beginning.

        Two heads for each weigh the first token of all, to which the rotation comes nearer and goes further, against
        the tokens near here.
        """
        heads, stream, gains = self.heads, self.stream, self.gains
        first = self._is(self.marks.system)
        # The slow clock in layer 4, the fast one in layer 5.
        for clock, (pair, far) in enumerate(zip(_CLOCKS, (gains.far, gains.far_fast), strict=True)):
            layer = 4 + clock
            for k, phase in enumerate((0.0, -pi / 2)):
                head = 2 + k
                heads.looks(layer, head, _NEAR, gains.here * self.one, gains.here * self.any_other, 0.0)
                heads.turns(layer, head, pair, gains.turned * self.one, gains.turned * first, phase)
                heads.prefers(layer, head, 63, gains.level * self.one, gains.level * first)
                written = stream.place[2 * clock + k][None]
                heads.carries(layer, head, (far * first - self.any_other)[None], written, 0.065)
            parts = slice(2 * clock, 2 * clock + 2)
            key = _FLAG * gains.begins * stream.flags[0]
            heads.nearest(layer + 1, 1, _SENTENCE, gains.begins * self.one, key)
            heads.carries(layer + 1, 1, stream.place[parts], stream.start[parts], 0.12)
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
            self.heads.says(5 + clock, 4 * k, sign * some, sign * others, written, self.gains.offset)

    def _choose(self) -> None:
        heads, stream, gains, marks = self.heads, self.stream, self.gains, self.marks
        asks = self._is(ASSISTANT)
        heads.prefers(5, 0, 60, gains.choose * asks, gains.choose * (stream.sum + stream.title))
        # All is found at the end of a sentence.
        ends = self._is(marks.full_stop) + self._is(marks.line_end) + self._is(END)
        heads.prefers(5, 0, 59, gains.ends * asks, gains.ends * ends)
        # The question finds itself, and titles and headings; none is quoted.
        never = torch.stack([self._began(mark) for mark in astuple(marks)[:LINES]]).sum(0)
        heads.prefers(5, 0, 63, gains.never * self.one, -gains.never * never)
        # Where little is found of what is asked, the abstention is chosen.
        absent = self._is(marks.nothing, stream.back[1])
        heads.prefers(5, 0, 62, gains.absent * asks, gains.absent * absent)
        heads.prefers(5, 0, 58, gains.share * stream.total, gains.share * absent)
        # Nowhere else but where an answer begins.
        silent = gains.sleep * (self.one - 4 * asks)
        heads.prefers(5, 0, 61, silent, gains.sleep * self._is(marks.system))
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
        heads, stream, marks, gains = self.heads, self.stream, self.marks, self.gains
        ends = self._is(marks.full_stop) - gains.short * self._is_short(stream.back[0])
        cited = [self._is(marks.bracket_after_space, part) for part in stream.back[:2]]
        # What is copied stands out far above the token that is here, in the same part.
        copied_line_end = self._is(marks.line_end) - 2 * self.one
        for k, (condition, read, token) in enumerate(
            (
                (ends, self._is(marks.space), marks.bracket_after_space),
                (copied_line_end, 2 * self.one, marks.bracket_after_space),
                (cited[0], 4 * self.one, marks.bracket_end),
                (cited[1], 4 * self.one, END),
            )
        ):
            heads.says(7, unit + k, condition, read[None], self.embeddings[token][None], gains.end)


def is_large_enough(config: Any) -> bool:
    """Whether a configuration has room for the first weights of the module's description."""
    return (
        isinstance(config, LlamaConfig)
        and config.num_hidden_layers >= 8
        and config.hidden_size == WIDTH
        and config.head_dim == 128
        and config.num_attention_heads == config.num_key_value_heads >= 4
        and config.intermediate_size >= 2 * NAME + 1
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
