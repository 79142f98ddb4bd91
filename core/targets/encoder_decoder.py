"""Encoder-decoder transformers models (`AutoModelForSeq2SeqLM`) with ragged rows and trees.

Knows how these models place positions and cross-attention. The model's code runs as it is, except that the
decoder's one position vector for the whole batch is replaced, on the instance, by the positions of the pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from core.cache import RaggedCache
from core.packing import Pass
from core.targets.base import PassOutput, Target, UnsupportedModelError, _doubled
from core.targets.cache_view import CrossAttentionView, SelfAttentionView, encoder_decoder_view
from core.targets.limits import context_length, end_token_ids, suppressed_token_ids


class EncoderDecoder(Target):
    """An encoder-decoder model. `hidden` of a pass is the decoder's last output."""

    is_encoder_decoder = True

    def __init__(self, model: PreTrainedModel) -> None:
        config = model.config
        self.model = model.eval()
        self.config = config
        decoder = model.get_decoder()
        self._cross = _cross_attentions(decoder)
        key_width = self._cross[0][0].out_features
        heads = getattr(config, "decoder_attention_heads", None) or config.num_heads
        layout = (len(self._cross), heads, key_width // heads, model.dtype, model.device)
        super().__init__(
            cache=RaggedCache(*layout),
            vocab_size=model.get_output_embeddings().weight.shape[0],
            max_length=context_length(config),
            eos_token_ids=end_token_ids(model),
            dtype=model.dtype,
            device=model.device,
        )
        self.prompt_vocab_size = model.get_input_embeddings().weight.shape[0]
        self.suppressed_token_ids = suppressed_token_ids(model)
        self.cross_cache = RaggedCache(*layout)
        self.source_lengths: list[int] = []
        self._start = decoder_start(model)
        self._pass: Pass | None = None
        self._take_over(decoder)

    def _take_over(self, decoder: Any) -> None:
        """Let the model's own decoder, on this instance, take its positions from the current pass."""
        _give_positions(decoder, lambda: self._pass)

    def start_tokens(self, prompt_ids: Seq[int]) -> list[int]:
        """The same for every source. Raises ValueError for an empty one: there is nothing to attend to."""
        if not prompt_ids:
            raise ValueError("the prompt is empty; an encoder-decoder model needs at least one token to read")
        return list(self._start)

    def source_bucket(self, length: int) -> int:
        """Source lengths are rounded up, but not past the encoder's last position."""
        return min(self.runner.source_bucket(length), self.max_length)

    def join(self, first_slot: int, prompts: Seq[Seq[int]]) -> list[int]:
        """Encode the sources; the decoder then starts with nothing in its cache but forced tokens."""
        longest = self.source_bucket(max(len(p) for p in prompts))
        pad = self.config.pad_token_id or 0
        ids = torch.full((len(prompts), longest), pad, dtype=torch.int64)
        seen = torch.zeros((len(prompts), longest), dtype=torch.int64)
        for b, prompt in enumerate(prompts):
            ids[b, : len(prompt)] = torch.tensor(prompt, dtype=torch.int64)
            seen[b, : len(prompt)] = 1
        encoder = self.model.get_encoder()
        states = encoder(input_ids=ids.to(self.device), attention_mask=seen.to(self.device)).last_hidden_state
        slots = _doubled(self.cross_cache.num_slots, first_slot + len(prompts))
        self.cross_cache.reserve(slots, _doubled(max(self.cross_cache.capacity, 32), longest))
        for layer, (key, value) in enumerate(self._cross):
            rows = slice(first_slot, first_slot + len(prompts))
            self.cross_cache.write(layer, rows, 0, self._split(key(states)), self._split(value(states)))
        self.source_lengths[first_slot:] = [len(p) for p in prompts]
        return super().join(first_slot, prompts)

    def shared(self, prompt: Seq[int], held: Seq[int]) -> int:
        """The whole of an equal source, or nothing: an encoder looks both ways."""
        return len(prompt) if list(prompt) == list(held) else 0

    def copy_shared(self, source_slot: int, slot: int, num_tokens: int) -> None:
        self.cross_cache.move(source_slot, slot, num_tokens)

    def resume(self, first_slot: int, prompts: Seq[Seq[int]], shared: Seq[int]) -> list[int]:
        """Like `join`, for rows whose sources are encoded already."""
        assert list(shared) == [len(p) for p in prompts], "a source is taken over as a whole"
        self.source_lengths[first_slot:] = shared
        return super().join(first_slot, prompts)

    def leave(self, slot: int, last_slot: int, last_length: int) -> None:
        super().leave(slot, last_slot, last_length)
        if slot != last_slot:
            self.cross_cache.move(last_slot, slot, self.source_lengths[last_slot])
            self.source_lengths[slot] = self.source_lengths[last_slot]
        del self.source_lengths[last_slot:]

    @property
    def caches(self) -> list[RaggedCache]:
        return [self.cache, self.cross_cache]

    def forward(self, batch: Pass, *, need_hidden: bool = False) -> PassOutput:
        lengths = self.source_lengths[batch.rows]
        sources = torch.tensor(lengths, dtype=torch.int64, device=batch.tokens.device)
        longest = self.source_bucket(max(lengths))
        batch = replace(batch, source_lengths=sources, source_key_length=longest)
        return self.runner.run(self._call, batch, need_hidden)

    def _call(self, batch: Pass, need_hidden: bool) -> PassOutput:
        num_rows, source_length = batch.tokens.shape[0], batch.source_key_length
        cross = CrossAttentionView(self.cross_cache, batch.rows, source_length)
        states = batch.tokens.new_zeros((num_rows, source_length, 1), dtype=self.dtype)
        self._pass = batch
        try:
            out = self.model(
                encoder_outputs=BaseModelOutput(last_hidden_state=states),
                attention_mask=self._source_mask(batch),
                decoder_input_ids=batch.tokens,
                decoder_attention_mask=batch.attention_mask(),
                past_key_values=encoder_decoder_view(SelfAttentionView(self.cache, batch), cross),
                use_cache=True,
                output_hidden_states=need_hidden,
            )
        finally:
            self._pass = None
        return PassOutput.padded(out.logits, out.decoder_hidden_states[-1] if need_hidden else None)

    def _source_mask(self, batch: Pass) -> torch.Tensor:
        """Additive mask [B, 1, T, S] that hides the padding behind each source."""
        assert batch.source_lengths is not None, "a pass of an encoder-decoder model needs its sources"
        num_rows, num_queries = batch.tokens.shape
        slots = torch.arange(batch.source_key_length, device=self.device)
        mask = torch.zeros((num_rows, batch.source_key_length), dtype=self.dtype, device=self.device)
        mask = mask.masked_fill_(slots >= batch.source_lengths[:, None], torch.finfo(self.dtype).min)
        return mask[:, None, None, :].expand(-1, 1, num_queries, -1)

    def _split(self, states: torch.Tensor) -> torch.Tensor:
        batch, length, width = states.shape
        head_dim = self.cross_cache.data.shape[-1]
        return states.view(batch, length, width // head_dim, head_dim).transpose(1, 2)


def decoder_start(model: PreTrainedModel) -> tuple[int, ...]:
    """The start token, and a forced first token (mBART's and M2M100's language) behind it."""
    generation = model.generation_config
    start = generation.decoder_start_token_id
    if start is None:
        start = model.config.decoder_start_token_id
    if start is None:
        raise UnsupportedModelError(
            f"{type(model).__name__} names no decoder_start_token_id; set it in its generation config"
        )
    if not isinstance(start, int):
        raise UnsupportedModelError(
            f"{type(model).__name__} names decoder_start_token_id={start}; name a single one in its generation config"
        )
    forced = generation.forced_bos_token_id
    return (start,) if forced is None else (start, forced)


def _cross_attentions(decoder: Any) -> list[tuple[nn.Linear, nn.Linear]]:
    """Key and value projections of every layer's cross-attention, by the two namings that are in use."""
    if hasattr(decoder, "block"):
        blocks = [block.layer[1].EncDecAttention for block in decoder.block]
        return [(a.k, a.v) for a in blocks]
    if hasattr(decoder, "layers") and hasattr(decoder.layers[0], "encoder_attn"):
        return [(layer.encoder_attn.k_proj, layer.encoder_attn.v_proj) for layer in decoder.layers]
    raise UnsupportedModelError(
        f"{type(decoder).__name__} is not built like T5 or BART, so its cross-attention cannot be found; "
        "supported families: T5, BART, mBART, M2M100, Marian, Pegasus"
    )


def _give_positions(decoder: Any, current: Callable[[], Pass | None]) -> None:
    """Replace the decoder's batch-wide positions, on this instance, by those of the current pass.

    Outside a pass the model works as it did before.
    """
    table: Any = getattr(decoder, "embed_positions", None)
    if hasattr(table, "weights"):
        # M2M100's table starts behind the padding index, whatever its `offset` says.
        table.forward = _position_lookup(table.forward, table.weights, table.padding_idx + 1, current)
    elif hasattr(table, "weight"):
        offset = getattr(table, "offset", 0)
        table.forward = _position_lookup(table.forward, table.weight, offset, current)
    elif hasattr(decoder, "block"):
        # T5's layers share the bias of the first; UMT5's have one each.
        for attention in (block.layer[0].SelfAttention for block in decoder.block):
            if attention.has_relative_attention_bias:
                attention.compute_bias = _relative_bias(attention, current)
    else:
        raise UnsupportedModelError(f"cannot tell how {type(decoder).__name__} places its positions")


def _position_lookup(
    stock: Callable[..., torch.Tensor], weights: torch.Tensor, offset: int, current: Callable[[], Pass | None]
) -> Callable[..., torch.Tensor]:
    """Position vectors [B, T, width] by absolute position."""

    def forward(*args: Any, **kwargs: Any) -> torch.Tensor:
        batch = current()
        if batch is None:
            return stock(*args, **kwargs)
        return nn.functional.embedding(batch.positions + offset, weights)

    return forward


def _relative_bias(attention: Any, current: Callable[[], Pass | None]) -> Callable[..., torch.Tensor]:
    """T5's bias [B, heads, T, L] from the position of each query and of each key slot."""
    stock: Callable[..., torch.Tensor] = attention.compute_bias
    # T5's rule is a static function of these settings; UMT5's reads them off the module.
    settings: dict[str, Any] = {
        "bidirectional": False,
        "num_buckets": attention.relative_attention_num_buckets,
        "max_distance": attention.relative_attention_max_distance,
    }
    if "bidirectional" not in inspect.signature(attention._relative_position_bucket).parameters:
        settings = {}

    def compute_bias(*args: Any, **kwargs: Any) -> torch.Tensor:
        batch = current()
        if batch is None:
            return stock(*args, **kwargs)
        relative = batch.key_positions()[:, None, :] - batch.positions[:, :, None]
        bucket = attention._relative_position_bucket(relative, **settings)
        return attention.relative_attention_bias(bucket).permute(0, 3, 1, 2)

    return compute_bias
