"""The model that is trained: a stock Llama whose first weights already copy.

Learning to copy from nothing takes a small model millions of tokens. So a few heads start as what training would
find (Olsson et al. 2022, "In-context Learning and Induction Heads"): who stands one and two tokens back; how the
sentence begins; how the sentences begin in which the words of the question stand; where the last two tokens stood
before, and what followed. Everything else starts small and random, and everything is trained.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from .tokenizer import ASSISTANT, END, PAD

# A dimension that is the same in every embedding gives heads something constant to look for.
_CONSTANT = 0.4


def small_config(
    vocab_size: int = 8192, width: int = 320, layers: int = 6, heads: int = 4, inner: int = 512
) -> LlamaConfig:
    """The configuration of chat-small (smaller ones serve in tests)."""
    return LlamaConfig(
        vocab_size=vocab_size, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 2), head_dim=64, intermediate_size=inner,
        max_position_embeddings=2048, rms_norm_eps=1e-6, tie_word_embeddings=True, bos_token_id=None,
        pad_token_id=PAD, eos_token_id=END,
        # So slow a rotation leaves half of each head nearly the same at all distances: what matches, matches.
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )  # fmt: skip


class _Heads:
    """Writes the first weights of single heads; a head has a query, and shares key and value with its group.

    The stream is laid out in parts of 32 dimensions, so that what one head writes is no noise to another:
    embeddings in three (one dimension of them constant), then slots that start empty.
    """

    def __init__(self, model: LlamaForCausalLM) -> None:
        self.config = model.config
        self.layers = model.model.layers
        identity = torch.eye(self.config.hidden_size)
        self.constant = identity[0]
        self.match, self.vote, self.rest = identity[1:33], identity[33:65], identity[65:96]
        self.slots = [identity[96 + 32 * k : 128 + 32 * k] for k in range(7)]

    def rows(self, projection: nn.Linear, index: int) -> Tensor:
        """The 64 rows of a projection that belong to a head or a group."""
        return projection.weight.data[64 * index : 64 * index + 64]

    def looks(
        self, layer: int, head: int, group: int, pairs: slice, query: Tensor, key: Tensor, distance: float
    ) -> None:
        """A head drawn to what `key` reads, most of all `distance` tokens back; `query` says how strongly.

        Both are directions `[W]`. Fast rotations make a narrow window, slower ones a wide one.
        """
        attention = self.layers[layer].self_attn
        queries, keys = self.rows(attention.q_proj, head), self.rows(attention.k_proj, group)
        queries.mul_(0.1)
        keys.mul_(0.1)
        places = torch.arange(32)[pairs]
        angles = distance * self.config.rope_parameters["rope_theta"] ** (-places / 32)
        keys[places] = key
        queries[places] = torch.cos(angles)[:, None] * query
        queries[places + 32] = -torch.sin(angles)[:, None] * query

    def matches(
        self, layer: int, head: int, group: int, pairs: slice, query: Tensor, key: Tensor, gain: float
    ) -> None:
        """A head that looks where what `key` reads is what `query` reads here, by the slow rotations."""
        attention = self.layers[layer].self_attn
        places = torch.arange(32)[pairs]
        places = torch.cat((places, places + 32))
        self.rows(attention.q_proj, head)[places] = gain * query[: len(places)]
        self.rows(attention.k_proj, group)[places] = gain * key[: len(places)]

    def carries(self, layer: int, head: int, group: int, read: Tensor, write: Tensor, gain: float) -> None:
        """A head whose value is a reading, written into a slot or back where it was read."""
        count = len(read)
        self.rows(self.layers[layer].self_attn.v_proj, group)[:count] = read
        self.layers[layer].self_attn.o_proj.weight.data[:, 64 * head : 64 * head + count] = gain * write.T


def _start_copying(model: LlamaForCausalLM, full_stop: Tensor, line_end: Tensor, speaker: Tensor) -> None:
    """The heads that copy. `speaker` stands before an answer; a full stop has a space token after it (`[W]` each)."""
    heads = _Heads(model)
    back, first, voted = heads.slots[:3], heads.slots[3:5], heads.slots[5:7]
    one = heads.constant

    def is_(token: Tensor, slot: Tensor) -> Tensor:
        reading = heads.match @ token
        return (reading / reading.norm()) @ slot

    for k, (head, group) in enumerate(((0, 0), (1, 0), (2, 1))):  # who stands one, two and three tokens back
        heads.looks(0, head, group, slice(0, 10), 1.5 * one, 1.5 * one, 1.0 + k)
        heads.carries(0, head, group, heads.match, back[k], 0.104)
    for k, (head, group) in enumerate(((0, 0), (2, 1))):
        # The first and second word of this sentence.
        begins = is_(line_end, back[k]) + is_(full_stop, back[k + 1])
        heads.looks(1, head, group, slice(7, 14), 1.2 * one, 1.2 * begins, 0.0)
        heads.carries(1, head, group, heads.vote, first[k], 0.2)
        # The same word earlier: how the sentence begins that it stands in.
        heads.matches(2, head, group, slice(16, 32), heads.match, back[0], 2.3)
        heads.carries(2, head, group, first[k], voted[k], 0.14)
        # Before the first and second token of an answer: what the words of the question found.
        asks = speaker / speaker.norm() if k == 0 else is_(speaker, back[0])
        heads.looks(3, head, group, slice(6, 12), 0.75 * asks, 0.83 * one, 9.0)
        heads.carries(3, head, group, voted[k], heads.vote, 0.5)
        # The last two tokens earlier, and what followed them there.
        heads.matches(5, head, group, slice(20, 32), heads.match, back[0], 2.8)
        heads.matches(5, head, group, slice(12, 20), back[0], back[1], 2.8)
        clean = torch.cat((heads.match, heads.rest))
        heads.carries(5, head, group, clean, clean, 0.55)


def build_model(config: LlamaConfig, marks: tuple[int, ...] = (), seed: int = 0) -> LlamaForCausalLM:
    """A fresh model; `marks` are the ids of the full stop and the line end. It copies where it is large enough to."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    width = config.hidden_size
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "embed" not in name:
                nn.init.normal_(weight, std=0.5 * weight.shape[1] ** -0.5)
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    weight.mul_(0.1)
        embedding = model.model.embed_tokens.weight
        copies = (
            bool(marks) and config.num_hidden_layers >= 6 and width >= 320 and config.num_attention_heads >= 4
        )
        used = 96 if copies else width
        nn.init.normal_(embedding, std=(used - 1) ** -0.5)
        embedding[:, used:] = 0.0
        embedding[:, 0] = _CONSTANT
        model.model.norm.weight.fill_(1.3)
        if copies:
            full_stop, line_end = (embedding[k].clone() for k in marks)
            for token in (full_stop, line_end):
                token[0] = 0.0
            speaker = embedding[ASSISTANT].clone()
            speaker[0] = 0.0
            _start_copying(model, full_stop, line_end, speaker)
    model.generation_config.eos_token_id = config.eos_token_id
    model.generation_config.pad_token_id = config.pad_token_id
    return model
