"""How far the first token that a verification rule decides on is from the target's distribution.

Knows recorded passes and rules. Needs no further pass of the model: a rule is a function of logits, tree and seed.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace
from statistics import fmean

import torch

from apps.bench.drafters.watched import FirstPass
from core.sampling import probabilities
from core.types import EMPTY_TREE
from core.verification import RULES


def total_variation(rule: str, passes: Seq[FirstPass], num_seeds: int) -> dict[str, float] | None:
    """The mean total variation between the rule's first tokens under `num_seeds` seeds and the distribution that
    plain decoding samples from; None without a pass.

    A finite sample of the distribution itself is not at 0: `floor` is what the exact rule has with the same seeds,
    without a tree.
    """
    if not passes:
        return None
    found = [_distance(rule, one, num_seeds) for one in passes]
    plain = [
        _distance("exact", FirstPass(one.logits[:1], EMPTY_TREE, one.params), num_seeds) for one in passes
    ]
    return {"tv": fmean(found), "floor": fmean(plain), "passes": len(passes), "seeds": num_seeds}


def _distance(rule: str, one: FirstPass, num_seeds: int) -> float:
    target = probabilities(one.logits[:1], one.params)[0].double()
    counts = torch.zeros_like(target)
    for seed in range(num_seeds):
        # Far from the seeds of the prompts, which are their numbers.
        verdict = RULES[rule](one.logits, one.tree, replace(one.params, seed=(1 << 40) + seed), 0)
        counts[one.tree.tokens[verdict.path[0]] if verdict.path else verdict.bonus] += 1
    return float((counts / num_seeds - target).abs().sum() / 2)
