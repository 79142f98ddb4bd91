"""A trial at load for families that no test has proven: some small passes against those of the model as it is.

Knows targets and models. A model that passes may still differ in what the trial does not reach (texts longer
than an attention window, for instance); one that fails would be run wrongly, and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from core.packing import PackedRow
from core.targets.base import Target, UnsupportedModelError
from core.types import DraftTree

#: `model_type` of the families that `tests/core/test_families.py` proves; they skip the trial.
PROVEN = frozenset(
    {
        "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi3", "gpt2", "opt",
        "t5", "bart", "mbart", "m2m_100", "marian", "pegasus",
    }
)  # fmt: skip

#: Largest difference that rounding explains, as a share of the logits' spread.
_TOLERANCES = {torch.float64: 1e-5, torch.float32: 1e-2}
#: In half precision a router may choose another expert at a near tie, so most of the nodes must agree, not all.
_HALF_TOLERANCE, _HALF_QUANTILE = 0.2, 0.75

_NEXT = 10

#: What transformers' modules raise when they are handed a mask, a cache or positions that they do not expect.
_MODULE_ERRORS = (
    RuntimeError,
    TypeError,
    ValueError,
    AttributeError,
    KeyError,
    IndexError,
    AssertionError,
)


class Trial(NamedTuple):
    """Rows, in ids that every vocabulary has, and what is drafted for and accepted of each of them in every pass."""

    prompts: Seq[Seq[int]]
    trees: Seq[DraftTree]
    paths: Seq[tuple[int, ...]]


#: Rows of different lengths, with trees whose accepted path branches.
_RAGGED = Trial(
    ([11, 7, 13, 7, 11, 12, 9, 8, 13], [9, 12], [8, 11, 7, 10, 12]),
    (DraftTree([7, 12, 8, 10, 12, 9], [-1, -1, 1, 0, 1, 4]), DraftTree([8, 13], [-1, -1]), DraftTree()),
    ((1, 4, 5), (1,), ()),
)
#: One token for each row: some models leave the mask aside in such a pass.
_PLAIN = Trial(_RAGGED.prompts, (DraftTree(),) * 3, ((),) * 3)
#: Chains of rows of one length, whose mask is the same.
_EQUAL = Trial(([11, 7, 13], [9, 12, 8]), (DraftTree([7, 12], [-1, 0]),) * 2, ((0,), (0,)))
_TRIALS = (_RAGGED, _PLAIN, _EQUAL)


@torch.inference_mode()
def require_equal(target: Target, model: PreTrainedModel) -> None:
    """Raise UnsupportedModelError, with the difference, where the target's passes are not the model's."""
    name = type(model).__name__
    try:
        differences = torch.cat([_differences(target, model, trial) for trial in _TRIALS])
    except _MODULE_ERRORS as error:
        raise UnsupportedModelError(
            f"{name} cannot be run with ragged rows and draft trees: {type(error).__name__}: {error}"
        ) from error
    dtype = target.dtype
    exact = dtype in _TOLERANCES
    found = float(differences.max() if exact else differences.quantile(_HALF_QUANTILE))
    allowed = _TOLERANCES.get(dtype, _HALF_TOLERANCE)
    if not found <= allowed:
        raise UnsupportedModelError(
            f"{name} gives other logits with ragged rows and draft trees than alone (they differ by {found:.2g} "
            f"of their spread, rounding explains {allowed:.2g}); it may ignore the mask or the positions"
        )


def _differences(target: Target, model: PreTrainedModel, trial: Trial) -> torch.Tensor:
    """Differences of all nodes, each as a share of the logits' spread; the rows leave again."""
    lengths = target.join(0, trial.prompts)
    rows = [target.start_tokens(prompt) for prompt in trial.prompts]
    found = []
    for _ in range(2):
        packed = [
            PackedRow(length, row[length:], tree)
            for length, row, tree in zip(lengths, rows, trial.trees, strict=True)
        ]
        output = target.forward(target.pack(packed))
        for slot, (prompt, row, tree) in enumerate(zip(trial.prompts, rows, trial.trees, strict=True)):
            logits = output.row_logits(slot, 1 + len(tree))
            for node in range(-1, len(tree)):
                expected = _fresh(model, prompt, row + _path(tree, node))
                difference = logits[1 + node].double() - expected
                found.append(difference.abs().max() / expected.std().clamp_min(1e-30))
        for slot, (tree, path) in enumerate(zip(trial.trees, trial.paths, strict=True)):
            target.commit(slot, lengths[slot] + 1, path)
            lengths[slot] += 1 + len(path)
            rows[slot] = [*rows[slot], *(tree.tokens[node] for node in path), _NEXT]
    for slot in reversed(range(len(rows))):
        target.leave(slot, slot, lengths[slot])
    return torch.stack(found)


def _path(tree: DraftTree, node: int) -> list[int]:
    path: list[int] = []
    while node >= 0:
        path.append(tree.tokens[node])
        node = tree.parents[node]
    return path[::-1]


def _fresh(model: PreTrainedModel, prompt: Seq[int], tokens: Seq[int]) -> torch.Tensor:
    """Logits [V] behind `tokens`, float64, by one pass of the model as it is."""
    decoded = torch.tensor([tokens], device=model.device)
    if model.config.is_encoder_decoder:
        source = torch.tensor([prompt], device=model.device)
        logits = model(input_ids=source, decoder_input_ids=decoded).logits
    else:
        logits = model(input_ids=decoded).logits
    return logits[0, -1].double()
