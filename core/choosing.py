"""From a pass's logits to verdicts for all rows: transforms, one token per node, the near-tie guard.

Knows rows and logits. The only copy from the device to the host in a step happens here.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

import torch

from core.packing import PackedRow
from core.sampling import best_tokens, keyed_scores, noise_key, perturbed_scores, top_gap
from core.targets.base import PassOutput, Target
from core.types import EMPTY_TREE, DecodeStats, DraftTree, SamplingParams, Sequence, Verdict
from core.verification import RULES, walk

#: Numbers of noise made at once, on the CPU (where they stay in its caches) and on a GPU.
_NOISE_ROOM = (1 << 18, 1 << 24)
#: Scores closer than this may swap when kernels of another shape round differently (largest difference seen
#: between a tree pass and a one-token pass, with a wide margin).
_NEAR_TIE_GAPS = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.05}


class Chooser:
    """Applies one verification rule to every row of a pass."""

    def __init__(
        self,
        target: Target,
        rule: str,
        *,
        exact: bool,
        near_tie_gap: float | None,
        stats: DecodeStats | None = None,
    ) -> None:
        if rule not in RULES:
            raise ValueError(f"unknown verification {rule!r}; choose one of {', '.join(RULES)}")
        if exact and rule != "exact":
            raise ValueError(
                f"exact=True looks again at tokens of the rule 'exact' alone; leave it out for {rule!r}"
            )
        self.rule = rule
        self._target = target
        self._guards = exact
        self._gap = _NEAR_TIE_GAPS[target.dtype] if near_tie_gap is None else near_tie_gap
        self._stats = DecodeStats() if stats is None else stats
        self._gaps: list[float] = []
        self._offsets: Seq[int] = ()
        self._suppressed = torch.tensor(target.suppressed_token_ids, dtype=torch.int64, device=target.device)

    def choose(self, rows: Seq[Sequence], trees: Seq[DraftTree], output: PassOutput) -> list[Verdict]:
        """One verdict for each row."""
        logits = self._transformed(rows, trees, output)
        if self.rule != "exact":
            rule = RULES[self.rule]
            return [
                rule(logits[start : start + 1 + len(tree)], tree, row.params, row.position)
                for start, row, tree in zip(output.offsets, rows, trees, strict=True)
            ]
        scores = self._scores(rows, trees, output.offsets, logits)
        if self._guards:
            best = torch.stack([best_tokens(scores).to(torch.float64), top_gap(scores).to(torch.float64)])
            chosen, self._gaps = best.tolist()
            chosen = [int(token) for token in chosen]
        else:
            chosen = best_tokens(scores).tolist()
        self._offsets = output.offsets
        return [
            walk(tree, chosen[start : start + 1 + len(tree)])
            for start, tree in zip(output.offsets, trees, strict=True)
        ]

    def confirm(self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: list[Verdict]) -> list[Verdict]:
        """Look again at near ties; the accepted paths must be committed already."""
        if not self._guards or self.rule != "exact":
            return verdicts
        alone = len(rows) == 1 and not len(trees[0])
        if alone:
            return verdicts
        return [
            self._confirm_row(slot, row, tree, verdict)
            for slot, (row, tree, verdict) in enumerate(zip(rows, trees, verdicts, strict=True))
        ]

    def _confirm_row(self, slot: int, row: Sequence, tree: DraftTree, verdict: Verdict) -> Verdict:
        written = [row.tokens[-1], *(tree.tokens[node] for node in verdict.path)]
        for i, node in enumerate((-1, *verdict.path)):
            if self._gaps[self._offsets[slot] + 1 + node] >= self._gap:
                continue
            chosen = verdict.bonus if i == len(verdict.path) else written[i + 1]
            again = self._alone(slot, row, written[: i + 1])
            for stats in (row.stats, self._stats):
                stats.near_ties += 1
                stats.near_tie_changes += again != chosen
            if again != chosen:
                return Verdict(verdict.path[:i], again)
        return verdict

    def _alone(self, slot: int, row: Sequence, written: list[int]) -> int:
        """The token that a pass over one token of this row alone chooses behind `written`."""
        depth = len(written) - 1
        batch = self._target.pack([PackedRow(row.cache_len + depth, written[-1:])], first_slot=slot)
        transform = row.request.transform
        needs_hidden = transform is not None and transform.needs_hidden
        output = self._target.forward(batch, need_hidden=needs_hidden)
        logits = output.row_logits(0, 1)
        if transform is not None:
            logits = transform.apply(logits, row.tokens + written[1:], EMPTY_TREE, output.row_hidden(0, 1))
        logits = self._without_suppressed(logits)
        return int(perturbed_scores(logits, row.params, [row.position + depth]).argmax())

    def _transformed(self, rows: Seq[Sequence], trees: Seq[DraftTree], output: PassOutput) -> torch.Tensor:
        for b, (row, tree) in enumerate(zip(rows, trees, strict=True)):
            if row.request.transform is not None:
                logits, hidden = output.row_logits(b, 1 + len(tree)), output.row_hidden(b, 1 + len(tree))
                logits[:] = row.request.transform.apply(logits, row.tokens, tree, hidden)
        return self._without_suppressed(output.logits)

    def _without_suppressed(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.index_fill_(-1, self._suppressed, -torch.inf) if len(self._suppressed) else logits

    def _scores(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], offsets: Seq[int], logits: torch.Tensor
    ) -> torch.Tensor:
        """Scores [M, V] whose argmax is the chosen token; greedy rows keep their logits."""
        if all(row.params.temperature == 0 for row in rows):
            return logits
        # A copy: the drafter learns from the logits afterwards.
        scores = logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)
        size = max(1, _NOISE_ROOM[scores.device.type == "cuda"] // scores.shape[1])
        for params, nodes in _sampled_nodes(rows, trees, offsets).items():
            for start in range(0, len(nodes), size):
                chunk, keys = zip(*nodes[start : start + size], strict=True)
                places = torch.tensor(chunk, device=scores.device)
                scores[places] = keyed_scores(logits[places], params, keys).to(scores.dtype)
        return scores


def _sampled_nodes(
    rows: Seq[Sequence], trees: Seq[DraftTree], offsets: Seq[int]
) -> dict[SamplingParams, list[tuple[int, tuple[int, int]]]]:
    """Place in the flat pass and noise key of every sampled node, by how it is sampled: rows that are sampled
    alike share their kernels."""
    nodes: dict[SamplingParams, list[tuple[int, tuple[int, int]]]] = {}
    for start, row, tree in zip(offsets, rows, trees, strict=True):
        if row.params.temperature > 0:
            filters = replace(row.params, seed=0, max_new_tokens=1, stop=())
            depths = [0, *tree.depths()]
            nodes.setdefault(filters, []).extend(
                (start + t, noise_key(row.params.seed, row.position + depth))
                for t, depth in enumerate(depths)
            )
    return nodes
