"""Rows, and the loop without a model: a made-up language says what comes next."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

import torch
from hypothesis import HealthCheck, settings

from core.drafters.base import Drafter
from core.targets.base import PassOutput
from core.types import DraftTree, Request, SamplingParams, Sequence
from core.verification import walk

VOCAB = 64
EOS = 2
NO_OUTPUT = PassOutput(torch.empty(0))

#: For property tests: a busy machine must not decide them.
UNHURRIED = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])

Language = Callable[[Seq[int]], int]
"""Tokens so far -> the next one"""


def row_of(
    prompt: list[int],
    *,
    tokens: Seq[int] = (1,),
    sources: Seq[list[int]] = (),
    prediction: list[int] | None = None,
    id: int = 0,
) -> Sequence:
    """An encoder-decoder's row; decoder-only where `tokens` are the prompt."""
    return Sequence(
        id=id,
        request=Request(prompt),
        params=SamplingParams(),
        prompt_ids=prompt,
        tokens=list(tokens),
        source_ids=[list(source) for source in sources],
        prediction_ids=prediction,
        max_tokens=10_000,
    )


def cycle(period: int) -> Language:
    """Counts from 10 up and begins again: what follows depends on the last token alone."""
    return lambda tokens: 10 + (tokens[-1] - 9) % period if tokens[-1] >= 10 else 10


def output_of(rows: Seq[Sequence], trees: Seq[DraftTree], language: Language) -> PassOutput:
    """Logits [B, T, V] of the language: nearly certain."""
    width = 1 + max(len(tree) for tree in trees)
    logits = torch.zeros(len(rows), width, VOCAB)
    for b, (row, tree) in enumerate(zip(rows, trees, strict=True)):
        paths = [list(row.tokens)]
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            paths.append([*paths[parent + 1], token])
        for t, path in enumerate(paths):
            logits[b, t, language(path)] = 12.0
    return PassOutput.padded(logits)


def step(drafter: Drafter, rows: Seq[Sequence], limit: int, language: Language) -> list[DraftTree]:
    """One turn of the loop; checks the trees and appends what the language says."""
    trees = drafter.propose(rows, [limit] * len(rows))
    for tree in trees:
        tree.check()
        assert len(tree) <= limit
        scores = tree.scores or ()
        assert all(0 < score <= 1 for score in scores)
        assert all(scores[i] <= scores[p] + 1e-9 for i, p in enumerate(tree.parents) if p >= 0 and scores)
        edges = list(zip(tree.parents, tree.tokens, strict=True))
        assert len(set(edges)) == len(edges), "two siblings carry the same token"
    output = output_of(rows, trees, language)
    verdicts = []
    for b, (row, tree) in enumerate(zip(rows, trees, strict=True)):
        verdict = walk(tree, output.row_logits(b, 1 + len(tree)).argmax(-1).tolist())
        row.tokens += [*(tree.tokens[node] for node in verdict.path), verdict.bonus]
        verdicts.append(verdict)
    drafter.observe(rows, trees, verdicts, output)
    return trees


def passes(drafter: Drafter, row: Sequence, length: int, language: Language, limit: int = 16) -> int:
    """How many passes it takes to write `length` tokens or more."""
    drafter.begin(row)
    count = 0
    while len(row.output_ids) < length:
        step(drafter, [row], limit, language)
        count += 1
    row.finish_reason = "stop"
    drafter.end(row)
    return count
