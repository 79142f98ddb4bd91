"""First weights for the chat model: a few heads that already read, choose and copy.

Learning that from nothing takes a small model far more text than two cores read in a day. So some heads start as what
training would find (Olsson et al. 2022, "In-context Learning and Induction Heads"), one step to a layer:

0. who stands one, two and three tokens back;
1. the first two words of this sentence, the last word of the one before, and the number of its passage;
2. where the words of the question stand: what tells those sentences from others (their first two words, the last word
   before them, the number of their passage; one word alone is too often alike);
3. before an answer: what the words of the question found, summed. A rare word finds one sentence, a common one many;
4. which sentence that is: its first two words; in an answer, one that begins like it, and the number of its passage;
5. the last three tokens earlier, and what followed them there. The inner layer then says the first or second word of
   the sentence, or after a bracket the number.

Everything else starts small and random. What finds (embeddings and layers 0 to 3) stays as it is; what chooses and
copies is trained, and `pointing` supervises the heads of 4 and 5.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from apps.rag.prompts import ABSTENTION

from .questions import stem
from .tokenizer import ASSISTANT, END, USER

# A dimension that is the same in every embedding gives heads something constant to look for.
_CONSTANT = 0.4
_PART = 32
#: Width of the part of an embedding that says what a token means.
MEANING = _PART - 1
# Pairs of a head's dimensions that hardly turn within a prompt.
_SLOW = slice(18, 48)
# How much of a token's matching part is its own, not its word's: "Bees", "bees" and "bee" match, but not wholly.
_OWN = 0.5

#: Which layer and head points at the sentence that is quoted, and which at the token that comes next.
SENTENCE_HEAD, TOKEN_HEAD = (4, 0), (5, 0)


class _Stream:
    """Where in the hidden state what is kept (each `[32, W]`), so that what one head writes is no noise to another."""

    def __init__(self, width: int) -> None:
        parts = torch.eye(width).split(_PART)
        self.constant = parts[0][0]
        #: Three parts of an embedding: alike for forms of a word; its own; its own (one dimension is the constant).
        self.rest, self.match, self.own = parts[0], parts[1], parts[2]
        self.back, self.first, self.before = parts[3:6], parts[6:8], parts[8]
        self.number, self.found, self.found_number = parts[9], parts[10:12], parts[12]


class _Heads:
    """Writes the first weights of single heads and inner units."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        self.config = model.config
        self.layers: Any = model.model.layers
        self.size: int = model.config.head_dim

    def rows(self, projection: nn.Linear, head: int) -> Tensor:
        """The rows of a projection that belong to a head."""
        return projection.weight.data[self.size * head : self.size * (head + 1)]

    def looks(self, layer: int, head: int, pairs: slice, query: Tensor, key: Tensor, distance: float) -> None:
        """A head drawn to what `key` reads, most of all `distance` tokens back; `query` says how strongly.

        Both are directions `[W]`. Fast rotations make a narrow window, slower ones a wide one.
        """
        attention = self.layers[layer].self_attn
        queries, keys = self.rows(attention.q_proj, head), self.rows(attention.k_proj, head)
        queries.mul_(0.1)
        keys.mul_(0.1)
        places = torch.arange(self.size // 2)[pairs]
        angles = distance * self.config.rope_parameters["rope_theta"] ** (-2 * places / self.size)
        keys[places] = key
        queries[places] = torch.cos(angles)[:, None] * query
        queries[places + self.size // 2] = -torch.sin(angles)[:, None] * query

    def matches(self, layer: int, head: int, pairs: slice, query: Tensor, key: Tensor, gain: float) -> None:
        """A head that looks where what `key` reads is what `query` reads here, by the slow rotations."""
        attention = self.layers[layer].self_attn
        places = torch.arange(self.size // 2)[pairs]
        places = torch.cat((places, places + self.size // 2))[: len(query)]
        self.rows(attention.q_proj, head)[places] = gain * query[: len(places)]
        self.rows(attention.k_proj, head)[places] = gain * key[: len(places)]

    def prefers(self, layer: int, head: int, pair: int, query: Tensor, key: Tensor) -> None:
        """A head drawn to what `key` reads wherever it stands, beside what it looks for."""
        attention = self.layers[layer].self_attn
        self.rows(attention.q_proj, head)[pair] = query
        self.rows(attention.k_proj, head)[pair] = key

    def carries(self, layer: int, head: int, read: Tensor, write: Tensor, gain: float) -> None:
        """A head whose value is a reading, written elsewhere or back where it was read."""
        count = len(read)
        attention = self.layers[layer].self_attn
        self.rows(attention.v_proj, head)[:count] = read
        attention.o_proj.weight.data[:, self.size * head : self.size * head + count] = gain * write.T

    def says(
        self, layer: int, first: int, condition: Tensor, read: Tensor, write: Tensor, gain: float
    ) -> None:
        """Inner units from `first` on that write what they read where `condition` `[W]` holds."""
        inner = self.layers[layer].mlp
        units = slice(first, first + len(read))
        inner.gate_proj.weight.data[units] = condition
        inner.up_proj.weight.data[units] = read
        inner.down_proj.weight.data[:, units] = gain * write.T


@dataclass(frozen=True)
class Marks:
    """Ids of the tokens that structure what is read."""

    full_stop: int
    line_end: int
    bracket: int
    bracket_after_space: int
    question: int
    nothing: int
    assistant: int = ASSISTANT
    user: int = USER
    end: int = END

    @classmethod
    def of(cls, tokenizer: Any) -> Marks:
        """Those of a tokenizer of this package; the last two begin a question and an abstention."""

        def ids(text: str) -> list[int]:
            found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
            return found

        full_stop, line_end, bracket, after_space = (ids(text)[-1] for text in (".", "\n", "[", " ["))
        return cls(full_stop, line_end, bracket, after_space, ids("Question")[0], ids(ABSTENTION)[0])


@dataclass(frozen=True)
class Gains:
    """How strongly each step works; found by trying them on questions with answers, before any training."""

    begins: float = 1.8
    match: float = 2.8
    phrase: float = 0.2
    absent: float = 1.2
    vote: float = 0.1
    gather: float = 0.7
    distance: float = 5.0
    sum: float = 1.0
    choose: float = 1.5
    chosen: float = 0.15
    never: float = 3.0
    begun: float = 2.0
    meaning_sum: float = 0.3
    clear: tuple[float, float] = (0.035, 0.018)
    copy: float = 2.8
    third: float = 0.8
    say: float = 1.0


class _Program:
    """The heads of the module's description, a method for each layer."""

    def __init__(self, model: LlamaForCausalLM, marks: Marks, gains: Gains) -> None:
        self.heads, self.stream = _Heads(model), _Stream(model.config.hidden_size)
        self.marks, self.gains = marks, gains
        self.embeddings = model.model.embed_tokens.weight.data.clone()
        self.one = self.stream.constant

    def write(self) -> None:
        """Write all of them."""
        self._stand_behind()
        self._begin_sentences()
        self._find_words()
        self._gather()
        self._choose()
        self._copy()

    def _is(self, token: int, part: Tensor | None = None) -> Tensor:
        """The direction `[W]` that tells a token of `marks`, here or in a part that holds a match reading of it.

        Other tokens have no share in it.
        """
        reading = self.stream.match @ self.embeddings[token]
        return (reading / reading.norm()) @ (self.stream.match if part is None else part)

    def _began(self, token: int) -> Tensor:
        """The direction that tells the tokens of a sentence that began with a token of `marks`."""
        reading = self.stream.own @ self.embeddings[token]
        return (reading / reading.norm()) @ self.stream.first[0]

    def _begins(self, words: int) -> Tensor:
        """The direction that tells the token so many words behind the beginning of a sentence."""
        back, marks = self.stream.back, self.marks
        lines = sum(self._is(mark, back[words]) for mark in (marks.line_end, ASSISTANT, USER))
        # After a full stop comes a token for the space; of two line ends, only the second begins anything.
        stops = self._is(marks.full_stop, back[words + 1])
        return lines + stops - 2 * self._is(marks.line_end, back[words - 1] if words else None)

    def _stand_behind(self) -> None:
        for k, part in enumerate(self.stream.back):
            self.heads.looks(0, k, slice(0, 11), 1.5 * self.one, 1.5 * self.one, 1.0 + k)
            self.heads.carries(0, k, self.stream.match, part, 0.104)

    def _begin_sentences(self) -> None:
        heads, stream, marks = self.heads, self.stream, self.marks
        numbered = self._is(marks.bracket, stream.back[0]) + self._is(marks.line_end, stream.back[1])
        for head, key, read, write, gain in (
            (0, self._begins(0), stream.own, stream.first[0], 0.2),
            (1, self._begins(1), stream.own, stream.first[1], 0.2),
            (3, self._begins(0), stream.back[2], stream.before, 0.1),
        ):
            heads.looks(1, head, slice(8, 16), self.gains.begins * self.one, self.gains.begins * key, 0.0)
            heads.carries(1, head, read, write, gain)
        heads.looks(1, 2, slice(10, 18), self.gains.begins * self.one, self.gains.begins * numbered, 0.0)
        heads.carries(1, 2, stream.own, stream.number, 0.2)
        # Where an answer begins, the words of the question's line make way for the chosen ones.
        before = (self._is(ASSISTANT), self._is(ASSISTANT, stream.back[0]))
        for k, (condition, part, gain) in enumerate(zip(before, stream.first, self.gains.clear, strict=True)):
            heads.says(1, k * _PART, condition, -part, part, gain)

    def _names(self) -> Tensor:
        """What tells sentences from others `[64, W]`: first words, the last word before, the passage's number."""
        first, second = self.stream.first
        return torch.cat((second[:16], self.stream.before[16:], first[:16], self.stream.number[:16]))

    def _find_words(self) -> None:
        heads, stream, gains = self.heads, self.stream, self.gains
        found = torch.cat(tuple(stream.found))
        # Not the marks. Where the word before is the same too, pieces of a name and phrases find more.
        plain = slice(len(astuple(self.marks)), None)
        here = torch.cat((stream.match[plain], gains.phrase * stream.back[0][plain]))
        there = torch.cat((stream.back[0][plain], stream.back[1][plain]))
        heads.matches(2, 0, _SLOW, here, there, gains.match)
        # A word that stands nowhere finds the abstention in the instruction.
        absent = gains.absent * (self.one - 4 * self._is(ASSISTANT))
        heads.prefers(2, 0, _SLOW.start - 1, absent, gains.absent * self._is(self.marks.nothing))
        heads.carries(2, 0, self._names(), found, gains.vote)

    def _gather(self) -> None:
        """Before the first and second token of an answer: the tokens of the line that begins with "Question"."""
        heads, stream, gains, marks = self.heads, self.stream, self.gains, self.marks
        asked = self._began(marks.question) - 3 * sum(
            self._is(mark) for mark in (ASSISTANT, END, marks.question)
        )
        asks = self._is(ASSISTANT) + self._is(ASSISTANT, stream.back[0])
        found = torch.cat(tuple(stream.found))
        for k, (part, gain) in enumerate(((found, gains.sum), (stream.rest[1:], gains.meaning_sum))):
            heads.looks(3, k, slice(16, 23), gains.gather * asks, gains.gather * asked, gains.distance)
            heads.carries(3, k, part, part, gain)

    def _choose(self) -> None:
        heads, stream, gains = self.heads, self.stream, self.gains
        words = torch.cat(tuple(stream.first))
        slowest = _SLOW.stop - 1
        wanted = torch.cat(tuple(stream.found))
        # What is said already binds what comes next: its first word, then its second.
        wanted[32:48] += gains.begun * stream.first[0][:16]
        wanted[:16] += gains.begun * stream.first[1][:16]
        heads.matches(4, 0, slice(_SLOW.start, slowest), wanted[:58], self._names()[:58], gains.choose)
        # The question finds itself, and titles; neither is quoted.
        never = self._began(self.marks.question) + self._began(self.marks.bracket)
        heads.prefers(4, 0, slowest, gains.never * self.one, -gains.never * never)
        heads.carries(4, 0, words, words, gains.chosen)
        own = torch.cat((stream.first[0][:30], stream.first[1][:30]))
        heads.matches(4, 1, _SLOW, own, own, gains.choose)
        heads.carries(4, 1, stream.number, stream.found_number, gains.chosen)

    def _copy(self) -> None:
        heads, stream, gains = self.heads, self.stream, self.gains
        # This token and the two before it.
        here = torch.cat((stream.match[8:], stream.back[0][12:], gains.third * stream.back[1][16:]))
        there = torch.cat((stream.back[0][8:], stream.back[1][12:], gains.third * stream.back[2][16:]))
        heads.matches(5, 0, _SLOW, here, there, gains.copy)
        clean = torch.cat((stream.match, stream.own))
        heads.carries(5, 0, clean, clean, 0.55)
        for k, (condition, read) in enumerate(
            (
                (self._is(ASSISTANT), stream.first[0]),
                (self._is(ASSISTANT, stream.back[0]), stream.first[1]),
                (self._is(self.marks.bracket_after_space), stream.found_number),
            )
        ):
            heads.says(5, k * _PART, condition, read, stream.own, gains.say)


def _word_likeness(tokenizer: Any, generator: torch.Generator) -> Tensor:
    """Matching parts `[V, 32]` of unit length: forms of a word, by its stem without case, lie near each other.

    The tokens that structure what is read have a dimension each, which no other token has a share in.
    """
    vocabulary = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    stems = [stem(token.lstrip("Ġ")) or token for token in vocabulary]
    numbers = {word: k for k, word in enumerate(dict.fromkeys(stems))}
    words = torch.randn(len(numbers), _PART, generator=generator)
    own = torch.randn(len(vocabulary), _PART, generator=generator)
    parts = words[torch.tensor([numbers[word] for word in stems])] + _OWN * own
    marks = astuple(Marks.of(tokenizer))
    parts[:, : len(marks)] = 0.0
    parts /= parts.norm(dim=1, keepdim=True)
    parts[list(marks)] = torch.eye(_PART)[: len(marks)]
    return parts


def is_large_enough(config: Any) -> bool:
    """Whether a configuration has room for the first weights of the module's description."""
    return (
        isinstance(config, LlamaConfig)
        and config.num_hidden_layers >= 6
        and config.hidden_size >= 13 * _PART
        and config.num_attention_heads == config.num_key_value_heads >= 4
        and config.intermediate_size >= 3 * _PART
    )


@torch.no_grad()
def write_first_weights(
    model: LlamaForCausalLM,
    tokenizer: Any,
    seed: int = 0,
    gains: Gains | None = None,
    meanings: Tensor | None = None,
) -> None:
    """Embeddings in three parts, and the heads. What else is in the model must be small, not to drown them out.

    `meanings` `[V, MEANING]` are unit vectors of the tokens (zeros where unknown); without them that part is random.
    """
    embedding = model.model.embed_tokens.weight
    used = 3 * _PART
    nn.init.normal_(embedding, std=(used - 1) ** -0.5)
    embedding[:, used:] = 0.0
    likeness = _word_likeness(tokenizer, torch.Generator().manual_seed(seed))
    embedding[: len(likeness), _PART : 2 * _PART] = likeness
    if meanings is not None:
        known = meanings.norm(dim=1) > 0
        embedding[: len(meanings), 1:_PART][known] = meanings[known]
    embedding[:, 0] = _CONSTANT
    # Parts of equal length: were one token longer, the constant would be weaker in it, and heads would pass it by.
    for part in (embedding[:, 1:_PART], embedding[:, _PART : 2 * _PART], embedding[:, 2 * _PART : used]):
        part.div_(part.norm(dim=1, keepdim=True) * 3**0.5)
    _Program(model, Marks.of(tokenizer), gains or Gains()).write()
