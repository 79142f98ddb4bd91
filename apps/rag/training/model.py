"""The model that is trained: a stock Llama whose first weights already copy.

Learning to copy from nothing takes a small model millions of tokens. So some heads start as what training would
find (Olsson et al. 2022, "In-context Learning and Induction Heads"): heads that look one and two tokens back,
heads that find where the last two tokens stood before and bring the token that followed, heads that look at the
start of the sentence, and heads that look for the same word. Everything else starts small and random, and
everything is trained.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from .tokenizer import END, PAD

# A dimension that is the same in every embedding gives heads something constant to look for.
_CONSTANT = 0.4


def small_config(
    vocab_size: int = 8192, width: int = 256, layers: int = 6, heads: int = 4, inner: int = 512
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
    """Writes the first weights of single heads; a head has a query, and shares key and value with its group."""

    def __init__(self, model: LlamaForCausalLM, seed: int) -> None:
        self.config = model.config
        self.layers = model.model.layers
        generator = torch.Generator().manual_seed(seed)
        width = self.config.hidden_size
        count = max(1, (width - 1) // 64)
        # Orthonormal readings of 64 dimensions each, of everything but the constant one.
        basis = torch.linalg.qr(torch.randn(width - 1, width - 1, generator=generator))[0]
        padded = torch.zeros(width - 1, width)
        padded[:, 1:] = basis
        self.readings = [padded[64 * k : 64 * k + 64] for k in range(count)]
        other = torch.linalg.qr(torch.randn(width - 1, width - 1, generator=generator))[0]
        moved = torch.zeros(width - 1, width)
        moved[:, 1:] = other
        self.slots = [moved[64 * k : 64 * k + 64] for k in range(count)]

    def rows(self, projection: nn.Linear, index: int) -> Tensor:
        """The 64 rows of a projection that belong to a head or a group."""
        return projection.weight.data[64 * index : 64 * index + 64]

    def columns(self, layer: int, head: int) -> Tensor:
        """The 64 columns of the output projection that belong to a head."""
        weight: Tensor = self.layers[layer].self_attn.o_proj.weight.data
        return weight[:, 64 * head : 64 * head + 64]

    def looks_back(self, layer: int, head: int, group: int, distance: int, gain: float = 7.0) -> None:
        """A head that looks `distance` tokens back, by the fast rotations."""
        attention = self.layers[layer].self_attn
        rates = self.config.rope_parameters["rope_theta"] ** (-torch.arange(10) / 32)
        scale = gain / (_CONSTANT / (1 + _CONSTANT**2) ** 0.5 * self.config.hidden_size**0.5)
        query, key = self.rows(attention.q_proj, head), self.rows(attention.k_proj, group)
        query.mul_(0.1)
        key.mul_(0.1)
        key[:10, 0] = scale
        query[:10, 0] = scale * torch.cos(rates * distance)
        query[32:42, 0] = -scale * torch.sin(rates * distance)

    def starts(self, layer: int, head: int, group: int, marks: Tensor, slot: int) -> None:
        """A head that looks at the nearest earlier token that follows a mark (the end of a sentence)."""
        attention = self.layers[layer].self_attn
        query, key = self.rows(attention.q_proj, head), self.rows(attention.k_proj, group)
        query.mul_(0.1)
        key.mul_(0.1)
        reading = self.readings[0] @ marks
        seen = (reading / reading.norm()) @ self.slots[slot]
        query[4:12, 0] = 2.0
        key[4:12] += 1.2 * seen

    def matches(
        self, layer: int, head: int, group: int, pairs: slice, query: Tensor, key: Tensor, gain: float = 2.8
    ) -> None:
        """A head that looks where what `key` reads is what `query` reads here, by the slow rotations."""
        attention = self.layers[layer].self_attn
        places = torch.arange(32)[pairs]
        places = torch.cat((places, places + 32))
        self.rows(attention.q_proj, head)[places] += gain * query[: len(places)]
        self.rows(attention.k_proj, group)[places] += gain * key[: len(places)]

    def carries(self, layer: int, head: int, group: int, read: Tensor, write: Tensor, gain: float) -> None:
        """A head whose value is a reading, written into a slot or back where it was read."""
        self.rows(self.layers[layer].self_attn.v_proj, group).copy_(read)
        self.columns(layer, head).copy_(gain * write.T)


def _start_copying(model: LlamaForCausalLM, marks: Tensor, seed: int) -> None:
    """The heads of the first four layers; see the module's docstring."""
    heads = _Heads(model, seed)
    same, more = heads.readings[0], heads.readings[1]
    one_back, two_back, begins = heads.slots[0], heads.slots[1], heads.slots[2]
    for head, distance, slot in ((0, 1, one_back), (1, 2, two_back)):
        heads.looks_back(0, head, 0, distance)
        heads.carries(0, head, 0, same, slot, 0.095)
    # Here one token back is the token before: the pair is looked for, the token after it is brought.
    for head, group, read in ((0, 0, same), (2, 1, more)):
        heads.matches(1, head, group, slice(20, 32), same, one_back)
        heads.matches(1, head, group, slice(12, 20), one_back, two_back)
        heads.carries(1, head, group, read, read, 0.5)
    heads.starts(2, 0, 0, marks, slot=0)
    heads.carries(2, 0, 0, same, begins, 0.12)
    for layer in (3, 4):
        heads.matches(layer, 0, 0, slice(16, 32), same, same, gain=1.3)
        heads.matches(layer, 2, 1, slice(16, 32), more, more, gain=1.3)


def build_model(config: LlamaConfig, mark_ids: tuple[int, ...] = (), seed: int = 0) -> LlamaForCausalLM:
    """A fresh model; `mark_ids` are the tokens that end a sentence. It copies where it is large enough to."""
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
        nn.init.normal_(embedding, std=(width - 1) ** -0.5)
        embedding[:, 0] = _CONSTANT
        # With tied embeddings a token's first guess is itself; a small norm keeps that guess quiet.
        model.model.norm.weight.fill_(0.4)
        if config.num_hidden_layers >= 5 and width >= 256 and config.num_attention_heads >= 4:
            marks = embedding[list(mark_ids)].mean(0) if mark_ids else embedding.mean(0)
            _start_copying(model, marks, seed)
    model.generation_config.eos_token_id = config.eos_token_id
    model.generation_config.pad_token_id = config.pad_token_id
    return model
