"""Distillation while serving (Online Speculative Decoding, Liu et al. 2310.07177): the draft model follows what the
target is asked, with the logits that verification has paid for already.

Knows drafters, a draft model and an optimizer. Outputs stay the target's; only the speed changes.
"""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from core.alignment.divergences import DIVERGENCES
from core.alignment.examples import Example, Layout, collate
from core.alignment.forward import learnt_logits
from core.drafters.base import Drafter
from core.drafters.draft_model import DraftModel
from core.targets.base import PassOutput, Target
from core.targets.registry import target_for
from core.types import DraftTree, Sequence, Verdict

Make = Callable[[Any], Drafter]
"""(a frozen copy of the draft model) -> the drafter that uses it"""


class Served(NamedTuple):
    """A finished row: its tokens, and the target's logits [n, V] behind each, in half precision."""

    example: Example
    logits: Tensor


class OnlineDistillation(Drafter):
    """Drafts with `model` (a transformers model of the target's kind), and trains it on what the target said.

    After every `update_every` finished rows, `steps` steps of AdamW at rate `lr` follow, each on `batch_rows` rows
    drawn from the last ones served (2 V bytes a token, `capacity` tokens at most), with the divergence `loss`. With
    `only_missed` just the tokens that were drafted wrongly, or not at all, are learnt. Rows that run keep the drafter
    they began with. `update_every` 0: only `learn` trains, when the caller calls it, say while nothing is asked.

    `make` turns a copy of the model into a drafter; by default `DraftModel`.
    """

    needs_logits = True

    def __init__(
        self,
        target: Target,
        model: Any,
        *,
        make: Make | None = None,
        loss: str = "forward_kl",
        update_every: int = 32,
        steps: int = 4,
        batch_rows: int = 8,
        lr: float = 1e-4,
        capacity: int = 8192,
        only_missed: bool = False,
        seed: int = 0,
    ) -> None:
        if loss not in DIVERGENCES:
            raise ValueError(f"no divergence {loss!r}; there are {', '.join(DIVERGENCES)}")
        if min(steps, batch_rows, capacity) < 1 or update_every < 0:
            raise ValueError(
                f"{steps=}, {batch_rows=} and {capacity=} must be at least 1, {update_every=} at least 0"
            )
        self.model = model
        self.num_updates = 0
        self._make = make or (lambda frozen: DraftModel(target, target_for(frozen)))
        self._layout = Layout.of(model)
        self._divergence = DIVERGENCES[loss]
        self._update_every, self._steps, self._batch_rows = update_every, steps, batch_rows
        self._capacity, self._only_missed = capacity, only_missed
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
        self._rng = random.Random(seed)
        self._served: deque[Served] = deque()
        self._num_kept = 0
        self._num_new = 0
        self._said: dict[int, list[Tensor]] = {}
        self._missed: dict[int, list[bool]] = {}
        self._calls: list[Callable[[Drafter], None]] = []
        self._newest = self._frozen()
        self._drafter_of: dict[int, Drafter] = {}

    # -- drafting -------------------------------------------------------------------------------------

    def read_vocabulary(self, tokenizer: Any) -> None:
        self._tell(lambda drafter: drafter.read_vocabulary(tokenizer))

    def read_verification(self, rule: str) -> None:
        self._tell(lambda drafter: drafter.read_verification(rule))

    def begin(self, row: Sequence) -> None:
        self._drafter_of[row.id] = self._newest
        self._said[row.id], self._missed[row.id] = [], []
        self._newest.begin(row)

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        trees: dict[int, DraftTree] = {}
        for drafter, places in self._by_drafter(rows):
            proposed = drafter.propose([rows[i] for i in places], [max_nodes[i] for i in places])
            trees |= zip(places, proposed, strict=True)
        return [trees[i] for i in range(len(rows))]

    def observe(
        self, rows: Seq[Sequence], trees: Seq[DraftTree], verdicts: Seq[Verdict], output: PassOutput
    ) -> None:
        for b, (row, tree, verdict) in enumerate(zip(rows, trees, verdicts, strict=True)):
            behind = [0, *(1 + node for node in verdict.path)]
            self._said[row.id].append(output.row_logits(b, 1 + len(tree))[behind].to(torch.float16).cpu())
            self._missed[row.id] += [False] * len(verdict.path) + [True]
        for drafter, places in self._by_drafter(rows):
            offsets = [output.offsets[i] for i in places]
            drafter.observe(
                [rows[i] for i in places],
                [trees[i] for i in places],
                [verdicts[i] for i in places],
                PassOutput(output.logits, offsets, output.hidden, output.is_cold),
            )

    def end(self, row: Sequence) -> None:
        self._drafter_of.pop(row.id).end(row)
        said, missed = self._said.pop(row.id), self._missed.pop(row.id)
        if row.finish_reason in ("stop", "length"):
            self._keep(row, torch.cat(said), missed)
        if self._update_every and self._num_new >= self._update_every:
            self.learn()

    # -- learning -------------------------------------------------------------------------------------

    def learn(self) -> float | None:
        """Train on what was served and draft with the result from the next row on; the mean loss, None where
        nothing was served yet."""
        if not self._served:
            return None
        self._num_new = 0
        with torch.inference_mode(False), torch.enable_grad():
            self.model.train()
            losses = [self._step() for _ in range(self._steps)]
            self._newest = self._frozen()
        self.num_updates += 1
        return sum(losses) / len(losses)

    def save(self, folder: str | Path) -> None:
        """Write the draft model as it is now."""
        self.model.save_pretrained(folder)

    def _step(self) -> float:
        drawn = self._rng.choices(self._served, k=self._batch_rows)
        device = next(self.model.parameters()).device
        batch = collate([served.example for served in drawn], self._layout).to(device)
        kept = [served.logits[torch.tensor(served.example.learnt)] for served in drawn]
        loss = self._divergence(torch.cat(kept).to(device), learnt_logits(self.model, batch)).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    def _keep(self, row: Sequence, logits: Tensor, missed: list[bool]) -> None:
        output = row.output_ids
        # What was accepted behind an end token is not in the text.
        learnt = tuple(missed[: len(output)]) if self._only_missed else (True,) * len(output)
        example = Example(tuple(row.prompt_ids), tuple(output), learnt)
        if not any(learnt) or not self._layout.fits(example):
            return
        with torch.inference_mode(False):
            # Tensors of the loop cannot be trained on.
            self._served.append(Served(example, logits[: len(output)].clone()))
        self._num_new += 1
        self._num_kept += len(output)
        while self._num_kept > self._capacity and len(self._served) > 1:
            self._num_kept -= len(self._served.popleft().example.output)

    # -- generations of drafters ----------------------------------------------------------------------

    def _frozen(self) -> Drafter:
        drafter = self._make(copy.deepcopy(self.model).eval().requires_grad_(False))
        for call in self._calls:
            call(drafter)
        return drafter

    def _tell(self, call: Callable[[Drafter], None]) -> None:
        """Said to the drafter of now and to all later ones."""
        self._calls.append(call)
        call(self._newest)

    def _by_drafter(self, rows: Seq[Sequence]) -> list[tuple[Drafter, list[int]]]:
        """The places of the rows of each drafter that is in use."""
        groups: dict[int, tuple[Drafter, list[int]]] = {}
        for i, row in enumerate(rows):
            drafter = self._drafter_of[row.id]
            groups.setdefault(id(drafter), (drafter, []))[1].append(i)
        return list(groups.values())
