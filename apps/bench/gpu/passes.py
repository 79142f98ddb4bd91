"""Part two: what a pass costs by shape, launched eagerly and replayed, and what the loop adds to it."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import torch

from apps.bench.gpu.clock import Deadline, free_bytes, median_ms
from apps.bench.gpu.models import SilentTokenizer
from core import Engine, Request, SamplingParams
from core.budget import FixedBudget
from core.drafters.base import Drafter
from core.packing import PackedRow
from core.targets.base import Target
from core.targets.runners import EagerRunner, power_of_two
from core.types import DraftTree, Sequence

#: rows x queries x committed length
GRID = [(rows, queries, 512) for rows in (1, 4, 16, 64) for queries in (1, 8, 16, 64)]
LONG = [(1, 1, 2048), (1, 16, 2048), (16, 1, 2048)]
QUICK_GRID = [(1, 1, 40), (3, 8, 40)]
#: rows x nodes for which the loop is timed beside the bare pass
LOOPS = [(1, 0), (1, 15), (8, 0), (8, 15), (32, 0), (32, 15), (64, 0), (64, 15)]
QUICK_LOOPS = [(1, 0), (3, 7)]


def make_room(target: Target, num_rows: int, length: int) -> bool:
    """Give the target a cache of just that size, leaving a third of the memory to the pass; False: no memory."""
    for cache in target.caches:
        cache.data = cache.data[:, :, :0, :, :0].clone()
    wanted = power_of_two(num_rows) * target.key_bucket(length) * target.cache.bytes_per_entry
    if wanted > 0.66 * free_bytes(target.device):
        return False
    target.bound(num_rows, length)
    return True


def time_passes(
    target: Target, grid: Seq[tuple[int, int, int]], deadline: Deadline, rounds: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Median milliseconds of a bare pass for each shape, eager and replayed. Ragged rows, chains of drafts."""
    timed: list[dict[str, Any]] = []
    skipped: list[str] = []
    for num_rows, num_queries, length in grid:
        name = f"pass of {num_rows} rows x {num_queries} queries behind {length} tokens"
        if deadline.is_over or not make_room(target, num_rows, length + num_queries):
            skipped.append(f"{name} ({'no time' if deadline.is_over else 'no memory'})")
            continue
        cell: dict[str, Any] = {"rows": num_rows, "queries": num_queries, "length": length}
        static = target.runner
        try:
            cell["graph_ms"] = pass_ms(target, num_rows, num_queries, length, rounds)
            target.runner = EagerRunner(target.device)
            cell["eager_ms"] = pass_ms(target, num_rows, num_queries, length, rounds)
        except torch.OutOfMemoryError:
            skipped.append(f"{name} (out of memory)")
        finally:
            target.runner = static
        timed.append(cell)
    return timed, skipped


def pass_ms(target: Target, num_rows: int, num_queries: int, length: int, rounds: int) -> float:
    """Median milliseconds of one pass, packing not included."""
    chain = DraftTree([7] * (num_queries - 1), list(range(-1, num_queries - 2)))
    packed = target.pack([PackedRow(length - i, [5], chain) for i in range(num_rows)])
    with torch.inference_mode():
        return median_ms(lambda: target.forward(packed), target.device, warm_up=3, rounds=rounds)


class WrongChain(Drafter):
    """Drafts the same number of nodes every time, all of them wrong: a step of one token and a known shape."""

    def __init__(self, num_nodes: int, wrong_token: int) -> None:
        self._tree = DraftTree([wrong_token] * num_nodes, list(range(-1, num_nodes - 1)))

    def propose(self, rows: Seq[Sequence], max_nodes: Seq[int]) -> list[DraftTree]:
        return [self._tree.prefix(n) for n in max_nodes]


class WithoutToken:
    """Rules one token out, so that a chain of it is always wrong."""

    needs_hidden = False

    def __init__(self, token: int) -> None:
        self._token = token

    def apply(
        self, logits: torch.Tensor, prefix: Seq[int], tree: DraftTree, hidden: torch.Tensor | None
    ) -> torch.Tensor:
        logits[:, self._token] = -1e4
        return logits


def time_loop(
    target: Target, loops: Seq[tuple[int, int]], length: int, num_steps: int, deadline: Deadline
) -> tuple[list[dict[str, Any]], list[str]]:
    """Milliseconds of a whole step of the engine beside those of the bare pass of the same shape."""
    timed: list[dict[str, Any]] = []
    skipped: list[str] = []
    for num_rows, num_nodes in loops:
        name = f"loop over {num_rows} rows with {num_nodes} nodes"
        if deadline.is_over or not make_room(target, num_rows, length + num_steps + 2 * num_nodes + 8):
            skipped.append(f"{name} ({'no time' if deadline.is_over else 'no memory'})")
            continue
        try:
            timed.append(_time_step(target, num_rows, num_nodes, length, num_steps))
        except torch.OutOfMemoryError:
            skipped.append(f"{name} (out of memory)")
    return timed, skipped


def _time_step(target: Target, num_rows: int, num_nodes: int, length: int, num_steps: int) -> dict[str, Any]:
    drafter = WrongChain(num_nodes, wrong_token=7) if num_nodes else "none"
    budget = FixedBudget(num_nodes)
    engine = Engine(target, SilentTokenizer(), drafter, max_rows=num_rows, prefix_rows=0, budget=budget)
    generator = torch.Generator().manual_seed(0)
    # Room for one more tree behind the steps that are timed, so that no step is cut short.
    params = SamplingParams(max_new_tokens=num_steps + num_nodes + 8)
    rows = []
    for i in range(num_rows):
        prompt = torch.randint(8, target.vocab_size, (length - i,), generator=generator).tolist()
        transform = WithoutToken(7) if num_nodes else None
        rows.append(engine.add(Request(prompt, params=params, transform=transform)))
    for _ in range(3):
        engine.step()
    before = engine.stats.seconds.total
    phases = dict(vars(engine.stats.seconds))
    step = median_ms(engine.step, target.device, warm_up=0, rounds=num_steps - 3)
    assert engine.stats.emitted == num_rows * num_steps, "every step must have written one token for each row"
    spent = engine.stats.seconds.total - before
    shares = {name: (value - phases[name]) / spent for name, value in vars(engine.stats.seconds).items()}
    for row in rows:
        engine.cancel(row)
    bare = pass_ms(target, num_rows, num_nodes + 1, length + num_steps // 2, rounds=10)
    return {
        "rows": num_rows,
        "nodes": num_nodes,
        "step_ms": step,
        "pass_ms": bare,
        "added_ms": step - bare,
        "share_by_phase": {name: round(share, 3) for name, share in shares.items() if share > 0.001},
    }
