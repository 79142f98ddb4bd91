"""A BART of smaller width that says nearly what the wide one says.

The hidden states of a trained model fill few of their dimensions. They are turned into the directions in which they
vary most, and the rest is cut off every matrix that reads or writes them (SliceGPT, Ashkboos et al. 2401.15024).
BART's layer norms also take off the mean, so the new directions lie where every state's mean is 0 anyway. Inside the
heads the products of queries with keys, and of output with values, are approximated at lower rank.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from core.alignment.examples import TextBatch


def narrow_bart(model: Any, width: int, ffn: int, batches: Iterable[TextBatch]) -> Any:
    """A copy with `width` channels and `ffn` inner places (0: in proportion); heads stay as many.

    `batches` show what states look like; some hundred texts will do. Raises ValueError for another kind of model and
    for sizes that do not divide.
    """
    config = copy.deepcopy(model.config)
    if config.model_type != "bart":
        raise ValueError(f"a {config.model_type} model's width cannot be cut, only BART's; cut its layers")
    heads = config.decoder_attention_heads
    if width % heads or not 1 < width <= config.d_model:
        raise ValueError(f"{width=} must be a multiple of the {heads} heads and at most {config.d_model}")
    ffn = ffn or config.decoder_ffn_dim * width // config.d_model
    if not 0 < ffn <= config.decoder_ffn_dim:
        raise ValueError(f"{ffn=} inner places must be at most the {config.decoder_ffn_dim} there are")
    with torch.no_grad():
        basis = _basis(_second_moment(model, batches), width)
        config.d_model, config.encoder_ffn_dim, config.decoder_ffn_dim = width, ffn, ffn
        narrow = type(model)(config).to(model.dtype)
        _narrow(model.model, narrow.model, basis, heads)
        # Tied or not: tied tables are written more than once.
        narrow.lm_head.weight.copy_(model.lm_head.weight @ basis)
        narrow.final_logits_bias.copy_(model.final_logits_bias)
    return narrow


def _second_moment(model: Any, batches: Iterable[TextBatch]) -> Tensor:
    """The mean outer product [d, d] of the hidden states behind all layers."""
    total = torch.zeros(model.config.d_model, model.config.d_model, dtype=model.dtype)
    for batch in batches:
        assert batch.source_mask is not None, "BART reads a source"
        out = model(**batch.model_inputs(), output_hidden_states=True)
        for states, mask in (
            (out.encoder_hidden_states, batch.source_mask),
            (out.decoder_hidden_states, batch.mask),
        ):
            for layer in states:
                seen = layer[mask.bool()]
                total += seen.T @ seen / len(seen)
    return total


def _basis(moment: Tensor, width: int) -> Tensor:
    """New directions [d, width]: the strongest width - 1, laid where the new coordinates' mean is 0."""
    strongest = torch.linalg.eigh(moment).eigenvectors[:, -(width - 1) :]
    ones, others = moment.new_ones(width, 1), torch.eye(width, width - 1).to(moment)
    balanced = torch.linalg.qr(torch.cat([ones, others], dim=1)).Q[:, 1:]
    return strongest @ balanced.T


def _narrow(wide: Any, narrow: Any, basis: Tensor, heads: int) -> None:
    narrow.shared.weight.copy_(wide.shared.weight @ basis)
    for name in ("encoder", "decoder"):
        old, new = getattr(wide, name), getattr(narrow, name)
        new.embed_tokens.weight.copy_(old.embed_tokens.weight @ basis)
        new.embed_positions.weight.copy_(old.embed_positions.weight @ basis)
        _norm(old.layernorm_embedding, new.layernorm_embedding, basis)
        for old_layer, new_layer in zip(old.layers, new.layers, strict=True):
            for part in ("self_attn", "encoder_attn"):
                if hasattr(old_layer, part):
                    _attention(getattr(old_layer, part), getattr(new_layer, part), basis, heads)
                    _norm(
                        getattr(old_layer, f"{part}_layer_norm"),
                        getattr(new_layer, f"{part}_layer_norm"),
                        basis,
                    )
            _inner(old_layer, new_layer, basis)
            _norm(old_layer.final_layer_norm, new_layer.final_layer_norm, basis)


def _norm(old: nn.LayerNorm, new: nn.LayerNorm, basis: Tensor) -> None:
    """A normalised state is as long as the root of its width; what comes out shall be as long as before."""
    wide, width = basis.shape
    shares = basis.square()
    new.weight.copy_(old.weight @ shares / shares.sum(0) * (wide / width) ** 0.5)
    new.bias.copy_(old.bias @ basis)


def _inner(old: Any, new: Any, basis: Tensor) -> None:
    """The strongest inner places of the feed-forward layer."""
    strength = old.fc1.weight.norm(dim=1) * old.fc2.weight.norm(dim=0)
    kept = strength.topk(new.fc1.out_features).indices.sort().values
    new.fc1.weight.copy_(old.fc1.weight[kept] @ basis)
    new.fc1.bias.copy_(old.fc1.bias[kept])
    new.fc2.weight.copy_(basis.T @ old.fc2.weight[:, kept])
    new.fc2.bias.copy_(old.fc2.bias @ basis)


def _attention(old: Any, new: Any, basis: Tensor, heads: int) -> None:
    size = basis.shape[1] // heads
    queries, keys, values = (_by_head(part, basis, heads) for part in (old.q_proj, old.k_proj, old.v_proj))
    output = (basis.T @ old.out_proj.weight).unflatten(1, (heads, -1)).transpose(0, 1)
    # Scores are divided by the root of the head's size, which has become smaller.
    scale = (size / queries.shape[1]) ** 0.5
    asked, told = _low_rank(queries.mT @ keys * scale, size)
    said, heard = _low_rank(output @ values, size)
    for part, rows in ((new.q_proj, asked.mT), (new.k_proj, told), (new.v_proj, heard)):
        flat = rows.flatten(0, 1)
        part.weight.copy_(flat[:, :-1])
        part.bias.copy_(flat[:, -1])
    new.out_proj.weight.copy_(said.transpose(0, 1).flatten(1))
    new.out_proj.bias.copy_(old.out_proj.bias @ basis)


def _by_head(part: nn.Linear, basis: Tensor, heads: int) -> Tensor:
    """Weights and bias [heads, head size, width + 1] of a projection that reads the new states."""
    return torch.cat([part.weight @ basis, part.bias[:, None]], dim=1).unflatten(0, (heads, -1))


def _low_rank(product: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Factors [heads, m, rank] and [heads, rank, n] whose product is nearest to `product` [heads, m, n]."""
    u, s, v = torch.linalg.svd(product)
    root = s[:, :rank].sqrt()
    return u[:, :, :rank] * root[:, None], root[:, :, None] * v[:, :rank]
