"""Facts read off a transformers model before it runs: context length, end tokens, what cannot be run exactly."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel

from core.targets.base import UnsupportedModelError

#: Attention kinds whose mask we can give explicitly.
_PLAIN_KINDS = frozenset({"full_attention", "sliding_attention"})
#: Rotary scalings whose frequencies change once the text passes the length trained on.
_LENGTH_DEPENDENT_ROPE = frozenset({"dynamic", "longrope"})
#: What families call the number of their positions. One that has several is bounded by the lowest.
_LIMITS = (
    "max_position_embeddings",
    "n_positions",
    "max_target_positions",
    "max_encoder_position_embeddings",
    "max_decoder_position_embeddings",
)
_UNLIMITED = 1 << 30
#: Settings of a generation config that change what is chosen, and at which value they do not.
_IDLE_VALUES = {
    "repetition_penalty": 1,
    "encoder_repetition_penalty": 1,
    "guidance_scale": 1,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": 0,
    "begin_suppress_tokens": None,
    "sequence_bias": None,
    "exponential_decay_length_penalty": None,
}


def context_length(config: Any) -> int:
    """Positions that the model can tell apart.

    T5's relative positions have no bound. With rotary scalings that switch frequencies at a length, the cached
    keys of one regime are wrong in the other, so the context ends where the switch would happen.
    """
    limit = min((int(n) for n in (getattr(config, name, None) for name in _LIMITS) if n), default=_UNLIMITED)
    if config.model_type in ("t5", "mt5", "umt5"):
        return _UNLIMITED
    for rope in _rope_settings(config):
        if rope.get("rope_type", rope.get("type")) in _LENGTH_DEPENDENT_ROPE:
            original = rope.get("original_max_position_embeddings") or getattr(
                config, "original_max_position_embeddings", None
            )
            limit = min(limit, int(original or limit))
    return limit


def _rope_settings(config: Any) -> list[dict[str, Any]]:
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    return [part for part in (rope, *rope.values()) if isinstance(part, dict)]


def end_token_ids(model: PreTrainedModel) -> frozenset[int]:
    """Every token that ends the text; a generation config may name several."""
    for config in (model.generation_config, model.config):
        ids = getattr(config, "eos_token_id", None)
        if ids is not None:
            return frozenset([ids] if isinstance(ids, int) else ids)
    return frozenset()


def suppressed_token_ids(model: PreTrainedModel) -> tuple[int, ...]:
    """Tokens that the generation config forbids everywhere: Marian's padding token, whose score is always 0 and
    would often win. Forbidden words of several tokens are not looked at, nor are ids that no token has."""
    generation = model.generation_config
    single = (word[0] for word in generation.bad_words_ids or () if len(word) == 1)
    banned = {*(generation.suppress_tokens or ()), *(set(single) - end_token_ids(model))}
    vocab_size = model.get_output_embeddings().weight.shape[0]
    return tuple(sorted(token for token in banned if 0 <= token < vocab_size))


def settings_not_applied(model: PreTrainedModel) -> list[str]:
    """Settings of the generation config by which transformers' greedy decoding would choose other tokens than ours.

    A forced end token is none of them: all it does is to end a text that the length limit cuts off.
    """
    generation = model.generation_config
    values = {name: getattr(generation, name, None) for name in _IDLE_VALUES}
    found = [f"{name}={value}" for name, value in values.items() if value and value != _IDLE_VALUES[name]]
    if any(len(word) > 1 for word in generation.bad_words_ids or ()):
        found.append("bad_words_ids of several tokens")
    return found


def require_plain_attention(model: PreTrainedModel, config: Any) -> None:
    """Raise UnsupportedModelError, with the reason, for a model whose state is not a plain key-value cache."""
    name = type(model).__name__
    if getattr(model, "_is_stateful", False):
        raise UnsupportedModelError(
            f"{name} keeps a recurrent state, which cannot be rolled back to the accepted tokens; "
            "use a model with attention layers only"
        )
    odd = set(getattr(config, "layer_types", None) or ()) - _PLAIN_KINDS
    if odd:
        raise UnsupportedModelError(
            f"{name} has layers of kind {', '.join(sorted(odd))}, which ignore the mask that draft trees need; "
            f"supported kinds are {', '.join(sorted(_PLAIN_KINDS))}"
        )
    if "local" in (getattr(config, "attention_layers", None) or ()):
        raise UnsupportedModelError(
            f"{name} has layers of local attention, whose window counts slots, not positions, so that they ignore "
            "the mask that draft trees need"
        )
    if getattr(config, "alibi", False) or config.model_type in ("bloom", "mpt"):
        raise UnsupportedModelError(
            f"{name} derives its position bias (ALiBi) from the slot, not from the position, so rows of different "
            "lengths and trees would be run wrongly"
        )


def capture_obstacle(config: Any) -> str | None:
    """Why a CUDA graph cannot hold a pass of this model, if so: such a model looks at numbers on the host."""
    for rope in _rope_settings(config):
        kind = rope.get("rope_type", rope.get("type"))
        if kind in _LENGTH_DEPENDENT_ROPE:
            return f"rotary positions of kind {kind} choose their frequencies on the host"
    for name in ("num_local_experts", "num_experts", "n_routed_experts"):
        if getattr(config, name, None):
            return "experts are chosen on the host"
    return None
