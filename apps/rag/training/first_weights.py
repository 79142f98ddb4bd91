"""First weights for the chat model: a few heads that already read, choose and copy.

Learning that from nothing takes a small model far more text than two cores read in a day. So some heads start as what
training would find (Olsson et al. 2022, "In-context Learning and Induction Heads"), one step to a layer:

0. who stands one to four tokens back;
1. what tells this sentence from others: its first three words, the last one before it, the number of its passage;
2. which words stood in their sentence before, not to count twice;
3. where the words of the question stand: in which sentences. A word that stands nowhere finds nothing;
4. where an answer begins: what the words of the question found, rare words above all;
5. there too: which sentence that is, the one that most of them found; its first word, its number;
6. in the rest of the answer: what was chosen where it began. So an answer never changes its sentence half-way;
7. of the chosen sentence, what follows the last four tokens there. The inner layer then says what no token before it
   tells: the first word of the sentence; where it ends, the brackets with its number, and the end.

Everything else starts small and random. Only what layers 5 and 7 look for is trained; `pointing` supervises a head in
each.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from .first_embeddings import CONSTANT, LINES, PART, first_embeddings
from .heads import Heads
from .marks import Marks
from .tokenizer import ASSISTANT, END, USER

#: Sizes of what is kept in the hidden state, in order (see `_Stream`).
_SIZES = (32, 32, 32, 32, 32, 32, 12, 4, 32, 32, 16, 16, 32, 80, 32, 32, 32)
_WIDTH = sum(_SIZES)
# How much of each part of a sentence's name is used where sentences are found, where their tokens are followed, and
# where words are told to stand in the same one.
_FOUND, _FOLLOWED, _SAME = (20, 20, 12, 14, 14), (9, 8, 0, 8, 7), (16, 16, 0, 10, 10)
# Flags: behind the beginning of a sentence (0 to 2), at the number of a passage; where the first was, later another.
_NUMBERED, _AGAIN = 3, 0
# How strongly the tokens before are written, and how much longer they then are than the token itself.
_BACK = 0.052
_SEEN_BACK = 1.09
# How much weaker the fourth of them is written.
_FAR = 3

#: Which layer and head points at the sentence that is quoted, and which at the token that comes next.
SENTENCE_HEAD, TOKEN_HEAD = (5, 0), (7, 0)


class _Stream:
    """Where in the hidden state what is kept (each `[n, W]`), so that what one head writes is no noise to another."""

    def __init__(self) -> None:
        parts = torch.eye(_WIDTH).split(_SIZES)
        #: Three parts of an embedding: weight and meaning; alike for forms of a word; its own.
        self.rest, self.match, self.own = parts[:3]
        self.constant, self.weight = self.rest[:2]
        #: Match readings of the tokens before; flags for three tokens of a beginning, and the number of a passage.
        self.back, self.flags = parts[3:7], parts[7]
        self.first, self.before, self.number = parts[8:11], parts[11], parts[12]
        self.found, self.chosen, self.say, self.cite = parts[13:]

    def names(self, sizes: tuple[int, ...]) -> Tensor:
        """What tells sentences from others: first words, last word before, number of the passage; so much of each."""
        parts = (*self.first, self.before, self.number)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


@dataclass(frozen=True)
class Gains:
    """How strongly each step works; found by trying them on questions with answers, before any training."""

    begins: float = 2.5
    mark: float = 0.008
    stood: float = 2.0
    same: float = 1.0
    new: float = 3.1
    again_seen: float = 0.04
    again: float = 2.2
    match: float = 1.5
    phrase: float = 0.08
    nowhere: float = 1.9
    asked: float = 1.5
    question: float = 0.85
    vote: float = 0.1
    gather: float = 0.9
    weight: float = 0.8
    distance: float = 5.0
    sum: float = 1.5
    choose: float = 2.0
    absent: float = 2.0
    sleep: float = 2.4
    never: float = 6.0
    chosen: float = 0.2
    latch: float = 2.6
    kept: float = 0.15
    copy: float = 4.2
    third: float = 1.1
    fourth: float = 1.1
    within: float = 0.7
    copied: float = 0.55
    say: float = 1.0
    end: float = 0.4
    begin: float = 8.0
    begun: float = 1.0


class _Program:
    """The heads of the module's description, a method for each layer."""

    def __init__(self, model: LlamaForCausalLM, marks: Marks, gains: Gains) -> None:
        self.heads, self.stream = Heads(model), _Stream()
        self.marks, self.gains = marks, gains
        self.embeddings = model.model.embed_tokens.weight.data.clone()
        self.one = self.stream.constant
        self._units = 0

    def write(self) -> None:
        """Write all of them."""
        self._stand_behind()
        self._begin_sentences()
        self._see_again()
        self._find_words()
        self._gather()
        self._choose()
        self._keep()
        self._copy()

    def _is(self, token: int, part: Tensor | None = None) -> Tensor:
        """The direction `[W]` that tells a token of `marks`, here or in a part that holds a match reading of it.

        Other tokens have no share in it.
        """
        place = astuple(self.marks).index(token)
        return (self.stream.match if part is None else part)[place]

    def _began(self, line: int) -> Tensor:
        """The direction that tells the tokens of a line that began with one of the first marks."""
        return self.stream.first[0][astuple(self.marks).index(line)]

    def _stand_behind(self) -> None:
        stream = self.stream
        for k, part in enumerate(stream.back):
            self.heads.looks(0, k, slice(0, 11), 1.5 * self.one, 1.5 * self.one, 1.0 + k)
            # The fourth must not make what stands behind a full stop longer.
            read, gain = (stream.match, _BACK) if k < 3 else (self._far(), _BACK / _FAR)
            self.heads.carries(0, k, read, part, gain)
        for words in range(3):
            self._mark_beginning(words)
        starts = self._is(self.marks.line_end, stream.back[1]) + self._is(USER, stream.back[1])
        self._mark(_NUMBERED, self._is(self.marks.bracket, stream.back[0]), starts)

    def _far(self) -> Tensor:
        """What is kept of the fourth token before, `[12, W]`: whether it is a full stop, and a part of its match."""
        part = self.stream.back[3]
        return torch.cat((self._is(self.marks.full_stop)[None], self.stream.match[-(len(part) - 1) :]))

    def _mark_beginning(self, words: int) -> None:
        """Mark the token so many words behind the beginning of a sentence."""
        back, marks = self.stream.back, self.marks
        # More than the stop of a sentence that ends nearby.
        lines = [self._is(mark, back[words]) for mark in (marks.line_end, ASSISTANT, USER)]
        # Of two line ends, only the second begins anything.
        here = self._is(marks.line_end, back[words - 1]) / _SEEN_BACK if words else self._is(marks.line_end)
        self._mark(words, 1.3 * torch.stack(lines).sum(0), self.one * (3**-0.5 / CONSTANT) - here)
        # A full stop and then the space before a capital letter.
        stop = _FAR * back[3][0] if words == 2 else self._is(marks.full_stop, back[words + 1])
        self._mark(words, stop, self._is(marks.space, back[words]))

    def _mark(self, flag: int, condition: Tensor, also: Tensor) -> None:
        """Raise a flag where both directions `[W]` are seen."""
        self.heads.says(0, self._units, condition, also[None], self.stream.flags[flag][None], self.gains.mark)
        self._units += 1

    def _begin_sentences(self) -> None:
        heads, stream, marks = self.heads, self.stream, self.marks
        first, second, third = stream.first
        # Of a word before, what is not one of the marks.
        before = stream.back[2][len(astuple(marks)) :][: len(stream.before)]
        read, write = torch.cat((stream.own, before)), torch.cat((first, 0.7 * stream.before))
        for head, pairs, flag, source, target in (
            (0, slice(7, 15), 0, read, write),
            (1, slice(7, 15), 1, stream.own, second),
            (2, slice(10, 18), _NUMBERED, stream.own, stream.number),
            (3, slice(7, 15), 2, stream.own[LINES:][: len(third)], third),
        ):
            key = self.gains.begins * stream.flags[flag]
            heads.looks(1, head, pairs, self.gains.begins * self.one, key, 0.0)
            heads.carries(1, head, source, target, 0.06)

    def _see_again(self) -> None:
        """Mark the token behind a word that stood in the same sentence before."""
        heads, stream, gains, marks = self.heads, self.stream, self.gains, self.marks
        plain = slice(len(astuple(marks)), None)
        names = gains.same * stream.names(_SAME)
        here = torch.cat((stream.back[0][plain], names))
        there = torch.cat((stream.back[1][plain], names))
        heads.matches(2, 0, slice(24, 63), here, there, gains.stood)
        heads.prefers(2, 0, 63, gains.new * self.one, gains.new * self._is(marks.system))
        # Constant, but zero where there is nothing.
        something = self.one * (3**-0.5 / CONSTANT) - self._is(marks.system)
        heads.carries(2, 0, something[None], stream.flags[_AGAIN][None], gains.again_seen)

    def _find_words(self) -> None:
        heads, stream, gains, marks = self.heads, self.stream, self.gains, self.marks
        # Not the marks. Where the word before is the same too, pieces of a name and phrases find more.
        plain = slice(len(astuple(marks)), None)
        here = torch.cat((stream.match[plain], gains.phrase * stream.back[0][plain]))
        there = torch.cat((stream.back[0][plain], stream.back[1][plain]))
        heads.matches(3, 0, slice(36, 62), here, there, gains.match)
        # Most looks where there is nothing: so every place where a word stands counts the same, be they one or ten.
        heads.prefers(3, 0, 63, gains.nowhere * self.one, gains.nowhere * self._is(marks.system))
        # A word that its sentence holds twice counts once there.
        heads.prefers(3, 0, 62, gains.again * self.one, -gains.again * stream.flags[_AGAIN])
        # Only for the question: what a passage finds would make the keys of its tokens unequal.
        asked = gains.asked * (self.one - gains.question * self._began(marks.question))
        heads.prefers(3, 0, 35, asked, gains.asked * self._is(marks.system))
        heads.carries(3, 0, stream.names(_FOUND), stream.found, gains.vote)

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
        names = stream.names(_FOUND)
        heads.matches(5, 0, slice(20, 61), stream.found, names, gains.choose)
        # The question finds itself, and titles and headings; none is quoted.
        never = torch.stack([self._began(mark) for mark in astuple(marks)[:LINES]]).sum(0)
        heads.prefers(5, 0, 63, gains.never * self.one, -gains.never * never)
        # Where little is found, the abstention is chosen.
        asks = self._is(ASSISTANT)
        heads.prefers(5, 0, 62, gains.absent * asks, gains.absent * self._is(marks.nothing, stream.back[1]))
        self._sleeps(5)
        read = torch.cat((stream.names(_FOLLOWED), stream.first[0], stream.number))
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
        here = (stream.match[10:], stream.back[0][16:], gains.third * stream.back[1][22:], fourth)
        there = (stream.back[0][10:], stream.back[1][16:], gains.third * stream.back[2][22:], far)
        # Behind the first token of an answer the second of a sentence follows, then the third.
        begun = gains.begun * torch.stack([self._is(ASSISTANT, part) for part in stream.back[:2]])
        query = torch.cat((*here, begun, gains.within * stream.chosen))
        key = torch.cat((*there, gains.begun * stream.flags[1:3], stream.names(_FOLLOWED)))
        heads.matches(7, 0, slice(18, 63), query, key, gains.copy)
        # Nothing is followed where the inner units speak.
        speaks = self._is(ASSISTANT) + sum(
            self._is(marks.bracket_after_space, part) for part in (stream.match, *stream.back[:2])
        )
        heads.prefers(7, 0, 63, gains.begin * speaks, gains.begin * self._is(marks.system))
        clean = torch.cat((stream.match, stream.own))
        heads.carries(7, 0, clean, clean, gains.copied)
        for k, (condition, read) in enumerate(
            (
                (self._is(ASSISTANT), stream.say),
                (self._is(marks.bracket_after_space), stream.cite),
            )
        ):
            heads.says(7, k * PART, condition, read, stream.own, gains.say)
        self._end(2 * PART)

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
        and config.hidden_size == _WIDTH
        and config.head_dim == 128
        and config.num_attention_heads == config.num_key_value_heads >= 4
        and config.intermediate_size >= 3 * PART
    )


@torch.no_grad()
def write_first_weights(
    model: LlamaForCausalLM,
    tokenizer: Any,
    seed: int = 0,
    gains: Gains | None = None,
    meanings: Tensor | None = None,
) -> None:
    """Embeddings in three parts (`meanings` as there), and the heads.

    What else is in the model must be small, not to drown them out.
    """
    embedding = model.model.embed_tokens.weight
    table = first_embeddings(tokenizer, len(embedding), seed, meanings)
    embedding.zero_()
    embedding[:, : 3 * PART] = table
    _Program(model, Marks.of(tokenizer), gains or Gains()).write()
