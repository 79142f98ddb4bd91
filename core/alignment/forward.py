"""What a model says at every learnt place of a batch, the outputs being given (teacher forcing).

Knows transformers models and batches. Does not know losses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from core.alignment.examples import IGNORED, TextBatch
from core.training import mixed_precision


def learnt_logits(model: Any, batch: TextBatch) -> Tensor:
    """Logits [M, V] at the M learnt places, row by row; in bf16 where the device has it."""
    with mixed_precision(batch.inputs.device):
        inputs = batch.model_inputs()
        places = batch.labels != IGNORED
        if hasattr(model, "final_logits_bias"):
            # BART's own head would also compute the places that nobody asked for.
            hidden = model.model(**inputs).last_hidden_state[places]
            logits: Tensor = model.lm_head(hidden) + model.final_logits_bias
        else:
            logits = model(**inputs).logits[places]
        return logits


def learnt_labels(batch: TextBatch) -> Tensor:
    """The tokens [M] that follow the learnt places."""
    return batch.labels[batch.labels != IGNORED]


class States(NamedTuple):
    """A model's last hidden states [B, T, hidden size] and the logits [B, T, V] that it makes of them."""

    hidden: Tensor
    logits: Tensor


@torch.no_grad()
def states(model: Any, batch: TextBatch) -> States:
    """What heads are trained on: the target's states at all places, in float32 as decoding hands them over."""
    out = model(**batch.model_inputs(), output_hidden_states=True)
    hidden = out.decoder_hidden_states if batch.source is not None else out.hidden_states
    return States(hidden[-1].float(), out.logits.float())
