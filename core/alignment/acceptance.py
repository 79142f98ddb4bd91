"""How much of a draft model the target accepts: measured while decoding, in tokens per pass, without a clock.

Knows engines and draft models. Does not know how they were trained.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

from core.budget import FixedBudget
from core.drafters.draft_model import DraftModel
from core.engine import Engine
from core.targets.base import Target
from core.types import Request, SamplingParams

_ROWS = 8


def tokens_per_pass(
    target: Target,
    draft: Target,
    tokenizer: Any,
    prompts: Seq[Seq[int]],
    *,
    temperature: float = 0.0,
    depth: int = 5,
    max_new_tokens: int = 128,
    rule: str = "exact",
) -> dict[str, float]:
    """Decode the prompts with chains of `depth` drafted tokens in every pass; returns `tokens_per_pass` and
    `accepted`, the share of the drafted tokens that stood.

    Chains are drafted whether or not they pay, so the figures depend on the models alone.
    """
    drafter = DraftModel(target, draft, num_children=1, max_depth=depth, is_paced=False)
    engine = Engine(
        target,
        tokenizer,
        drafter,
        verification=rule,
        max_rows=_ROWS,
        prefix_rows=0,
        budget=FixedBudget(depth),
    )
    requests = [
        Request(prompt, params=SamplingParams(temperature=temperature, max_new_tokens=max_new_tokens, seed=i))
        for i, prompt in enumerate(prompts)
    ]
    done = engine.generate(requests)
    passes = sum(one.stats.target_calls for one in done)
    drafted = sum(one.stats.drafted for one in done)
    return {
        "tokens_per_pass": sum(one.stats.emitted for one in done) / passes,
        "accepted": sum(one.stats.accepted for one in done) / max(drafted, 1),
    }
