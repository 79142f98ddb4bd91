"""What drafters and their training borrow from a target's own model: embedding and output projection.

Knows transformers models. Does not know drafting.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from core.targets.base import Target


class ModelParts:
    """Embedding and output projection of a model; both are the model's own tensors, not copies."""

    def __init__(self, model: Any) -> None:
        self.embedding: torch.Tensor = model.get_input_embeddings().weight
        output = model.get_output_embeddings()
        self.output_weight: torch.Tensor = output.weight
        bias = getattr(model, "final_logits_bias", None)
        self.output_bias: torch.Tensor | None = output.bias if bias is None else bias.flatten()
        config = model.config.get_text_config(decoder=True)
        # T5 shrinks the last hidden state where input and output share their embedding.
        is_t5 = config.model_type in ("t5", "mt5", "umt5")
        is_shrunk = getattr(config, "scale_decoder_outputs", is_t5 and config.tie_word_embeddings)
        self._scale = config.d_model**-0.5 if is_t5 and is_shrunk else 1.0

    @classmethod
    def of(cls, target: Target) -> ModelParts:
        """The parts of a target's model."""
        model: Any = target.model  # type: ignore[attr-defined]
        return cls(model)

    @property
    def hidden_size(self) -> int:
        return self.output_weight.shape[1]

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Token ids [..] to vectors [.., embedding size], as they lie in the table."""
        return F.embedding(tokens, self.embedding)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Last hidden states [.., hidden size] to logits [.., V]; caps on logits are left out."""
        return F.linear(hidden * self._scale, self.output_weight, self.output_bias)
