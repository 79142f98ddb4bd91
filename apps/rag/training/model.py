"""The model that is trained: a stock Llama whose first weights already read, choose and copy.

Learning that from nothing takes a small model far more text than two cores read in a day. So some heads start as what
training would find (Olsson et al. 2022, "In-context Learning and Induction Heads"), one step to a layer:

0. who stands one, two and three tokens back;
1. the first two words of this sentence, and the number of its passage;
2. where the words of the question stand: the first two words of those sentences, and the numbers of those passages;
3. before an answer: what the words of the question found, summed. A rare word finds one sentence, a common one many;
4. which sentence that is, sharply: its first two words; and in an answer, the number of the passage it quotes;
5. the last two tokens earlier, and what followed them there. The inner layer then says the first or second word of the
   sentence, or after a bracket the number.

Everything else starts small and random, and everything is trained. `pointing` supervises the heads of 4 and 5.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from apps.rag.prompts import ABSTENTION

from .questions import stem
from .tokenizer import ASSISTANT, END, PAD, USER

# A dimension that is the same in every embedding gives heads something constant to look for.
_CONSTANT = 0.4
_PART = 32
# How much of a token's matching part is its own, not its word's: "Bees", "bees" and "bee" match, but not wholly.
_OWN = 0.5

#: Which layer and head points at the sentence that is quoted, and which at the token that comes next.
SENTENCE_HEAD, TOKEN_HEAD = (4, 0), (5, 0)


def small_config(
    vocab_size: int = 8192, width: int = 384, layers: int = 6, heads: int = 4, inner: int = 448
) -> LlamaConfig:
    """The configuration of chat-small (smaller ones serve in tests)."""
    return LlamaConfig(
        vocab_size=vocab_size, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=heads, head_dim=64, intermediate_size=inner,
        max_position_embeddings=2048, rms_norm_eps=1e-6, tie_word_embeddings=True, bos_token_id=None,
        pad_token_id=PAD, eos_token_id=END,
        # So slow a rotation leaves half of each head nearly the same at all distances: what matches, matches.
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )  # fmt: skip


class _Stream:
    """Where in the hidden state what is kept (each `[32, W]`), so that what one head writes is no noise to another."""

    def __init__(self, width: int) -> None:
        parts = torch.eye(width).split(_PART)
        self.constant = parts[0][0]
        #: Three parts of an embedding: alike for forms of a word; its own; its own (one dimension is the constant).
        self.rest, self.match, self.own = parts[0], parts[1], parts[2]
        self.back, self.first, self.found = parts[3:6], parts[6:8], parts[8:10]
        self.number, self.found_number = parts[10], parts[11]


class _Heads:
    """Writes the first weights of single heads and inner units."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        self.config = model.config
        self.layers: Any = model.model.layers

    def rows(self, projection: nn.Linear, head: int) -> Tensor:
        """The 64 rows of a projection that belong to a head."""
        return projection.weight.data[64 * head : 64 * head + 64]

    def looks(self, layer: int, head: int, pairs: slice, query: Tensor, key: Tensor, distance: float) -> None:
        """A head drawn to what `key` reads, most of all `distance` tokens back; `query` says how strongly.

        Both are directions `[W]`. Fast rotations make a narrow window, slower ones a wide one.
        """
        attention = self.layers[layer].self_attn
        queries, keys = self.rows(attention.q_proj, head), self.rows(attention.k_proj, head)
        queries.mul_(0.1)
        keys.mul_(0.1)
        places = torch.arange(32)[pairs]
        angles = distance * self.config.rope_parameters["rope_theta"] ** (-places / 32)
        keys[places] = key
        queries[places] = torch.cos(angles)[:, None] * query
        queries[places + 32] = -torch.sin(angles)[:, None] * query

    def matches(self, layer: int, head: int, pairs: slice, query: Tensor, key: Tensor, gain: float) -> None:
        """A head that looks where what `key` reads is what `query` reads here, by the slow rotations."""
        attention = self.layers[layer].self_attn
        places = torch.arange(32)[pairs]
        places = torch.cat((places, places + 32))[: len(query)]
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
        attention.o_proj.weight.data[:, 64 * head : 64 * head + count] = gain * write.T

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
    gather: float = 0.4
    distance: float = 5.0
    absent: float = 1.2
    choose: float = 3.0
    chosen: float = 0.15
    number: float = 1.0
    copy: float = 2.8
    say: float = 1.0


def _write_program(model: LlamaForCausalLM, marks: Marks, gains: Gains) -> None:
    """The heads of the module's description."""
    heads, stream = _Heads(model), _Stream(model.config.hidden_size)
    one = stream.constant
    embeddings = model.model.embed_tokens.weight.data.clone()
    embeddings[:, 0] = 0.0

    def is_(token: int, part: Tensor | None = None) -> Tensor:
        """The direction that tells a token, here or in a part that holds a match reading of it."""
        if part is None:
            return embeddings[token] / embeddings[token].norm()
        reading = stream.match @ embeddings[token]
        return (reading / reading.norm()) @ part

    back, first, found = stream.back, stream.first, stream.found
    for k in range(3):
        heads.looks(0, k, slice(0, 10), 1.5 * one, 1.5 * one, 1.0 + k)
        heads.carries(0, k, stream.match, back[k], 0.104)
    for k in range(2):
        # After a full stop comes a token for the space.
        begins = is_(marks.full_stop, back[k + 1]) - 2 * is_(
            marks.line_end, back[k - 1] if k else stream.match
        )
        begins = begins + sum(is_(mark, back[k]) for mark in (marks.line_end, ASSISTANT, USER))
        heads.looks(1, k, slice(7, 14), gains.begins * one, gains.begins * begins, 0.0)
        heads.carries(1, k, stream.own, first[k], 0.2)
    question = stream.own @ embeddings[marks.question]
    is_question = (question / question.norm()) @ first[0]
    asked = is_question - 3 * sum(is_(mark) for mark in (ASSISTANT, END, marks.question))
    words = stream.match.clone()
    words[: len(astuple(marks))] = 0.0
    numbered = is_(marks.bracket, back[0]) + is_(marks.line_end, back[1])
    heads.looks(1, 2, slice(9, 16), gains.begins * one, gains.begins * numbered, 0.0)
    heads.carries(1, 2, stream.own, stream.number, 0.2)
    for k, (read, write) in enumerate(
        zip((*first, stream.number), (*found, stream.found_number), strict=True)
    ):
        # A word that stands nowhere finds the abstention in the instruction.
        heads.matches(2, k, slice(16, 32), words, back[0], gains.match)
        heads.prefers(2, k, 15, gains.absent * (one - 4 * is_(ASSISTANT)), gains.absent * is_(marks.nothing))
        heads.carries(2, k, read, write, 0.14)
        # Before the first and second token of an answer: the tokens of the line that begins with "Question".
        asks = is_(ASSISTANT) + is_(ASSISTANT, back[0])
        heads.looks(3, k, slice(8, 14), gains.gather * asks, gains.gather * asked, gains.distance)
        heads.carries(3, k, write, write, 0.5)
    wanted = torch.cat((found[0][:12], found[1][:12], gains.number * stream.found_number[:8]))
    here = torch.cat((first[0][:12], first[1][:12], stream.number[:8]))
    heads.matches(4, 0, slice(16, 32), wanted, here, gains.choose)
    heads.carries(4, 0, torch.cat(tuple(first)), torch.cat(tuple(found)), gains.chosen)
    own = torch.cat((first[0][:16], first[1][:16]))
    heads.matches(4, 1, slice(16, 32), own, own, gains.choose)
    heads.carries(4, 1, stream.number, stream.found_number, gains.chosen)
    heads.matches(5, 0, slice(20, 32), stream.match, back[0], gains.copy)
    heads.matches(5, 0, slice(12, 20), back[0], back[1], gains.copy)
    clean = torch.cat((stream.match, stream.own))
    heads.carries(5, 0, clean, clean, 0.55)
    heads.says(5, 0, is_(ASSISTANT), found[0], stream.own, gains.say)
    heads.says(5, 32, is_(ASSISTANT, back[0]), found[1], stream.own, gains.say)
    heads.says(5, 64, is_(marks.bracket_after_space), stream.found_number, stream.own, gains.say)


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
        and config.hidden_size >= 12 * _PART
        and config.num_attention_heads == config.num_key_value_heads >= 4
        and config.intermediate_size >= 3 * _PART
    )


@torch.no_grad()
def build_model(
    config: LlamaConfig, tokenizer: Any = None, seed: int = 0, gains: Gains | None = None
) -> LlamaForCausalLM:
    """A fresh model. With a tokenizer of this package, and where it is large enough, it reads, chooses and copies."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    for name, weight in model.named_parameters():
        if weight.ndim == 2 and "embed" not in name:
            nn.init.normal_(weight, std=0.5 * weight.shape[1] ** -0.5)
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.mul_(0.1)
    embedding = model.model.embed_tokens.weight
    is_programmed = tokenizer is not None and is_large_enough(config)
    used = 3 * _PART if is_programmed else config.hidden_size
    nn.init.normal_(embedding, std=(used - 1) ** -0.5)
    embedding[:, used:] = 0.0
    model.model.norm.weight.fill_(1.3)
    if is_programmed:
        likeness = _word_likeness(tokenizer, torch.Generator().manual_seed(seed))
        embedding[: len(likeness), _PART : 2 * _PART] = likeness
    embedding[:, 0] = _CONSTANT
    if is_programmed:
        # Parts of equal length: were one token longer, the constant would be weaker in it, and heads would pass it by.
        for part in (embedding[:, 1:_PART], embedding[:, _PART : 2 * _PART], embedding[:, 2 * _PART : used]):
            part.div_(part.norm(dim=1, keepdim=True) * 3**0.5)
        _write_program(model, Marks.of(tokenizer), gains or Gains())
    model.generation_config.eos_token_id = config.eos_token_id
    model.generation_config.pad_token_id = config.pad_token_id
    return model
