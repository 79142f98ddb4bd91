"""Part one: does every drafter write the tokens of plain decoding, on this device, in these number types?"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from apps.bench.gpu.clock import Deadline
from apps.bench.gpu.models import FAMILIES, SMALL_VOCAB, SilentTokenizer, adapter, small_model
from core import Engine, Request, SamplingParams, drafters
from core.budget import FixedBudget
from core.targets.base import Target
from core.targets.runners import StaticRunner

_PROMPT_LENGTHS = (23, 5, 1, 40, 12)
_NUM_NODES = 9


@dataclass(frozen=True)
class Mode:
    """One way to run a model."""

    dtype: torch.dtype
    has_graphs: bool
    is_guarded: bool = False

    @property
    def name(self) -> str:
        words = [str(self.dtype).removeprefix("torch.")]
        words += ["exact"] if self.is_guarded else []
        return " ".join([*words, "graphs" if self.has_graphs else "eager"])


#: The most telling first: a run that is short of time stops somewhere in this list.
MODES = (
    Mode(torch.float32, has_graphs=True),
    Mode(torch.float32, has_graphs=False),
    Mode(torch.bfloat16, has_graphs=True),
    Mode(torch.bfloat16, has_graphs=True, is_guarded=True),
    Mode(torch.bfloat16, has_graphs=False),
    Mode(torch.bfloat16, has_graphs=False, is_guarded=True),
)


def check_identity(
    device: torch.device, deadline: Deadline, num_tokens: int, is_quick: bool
) -> dict[str, Any]:
    """Rates of identical rows by mode; the reference is plain decoding of each row alone, launched eagerly."""
    families = ["llama", "bart"] if is_quick else list(FAMILIES)
    modes = MODES[:1] + MODES[3:4] if is_quick else MODES
    cells: list[dict[str, Any]] = []
    skipped: list[str] = []
    expected: dict[tuple[str, torch.dtype], list[list[int]]] = {}
    targets: dict[tuple[str, torch.dtype, bool], Target] = {}
    for mode, family in product(modes, families):
        if deadline.is_over:
            skipped.append(f"identity of {family}, {mode.name}")
            continue
        key = (family, mode.dtype)
        if key not in expected:
            model = small_model(family, mode.dtype, device)
            expected[key] = _alone(adapter(model, has_graphs=False), num_tokens)
        if (*key, mode.has_graphs) not in targets:
            model = small_model(family, mode.dtype, device)
            targets[(*key, mode.has_graphs)] = adapter(model, mode.has_graphs)
        cells += _compare(targets[(*key, mode.has_graphs)], family, mode, expected[key], num_tokens)
    for (family, dtype, _), target in targets.items():
        if isinstance(target.runner, StaticRunner) and target.runner.obstacle is not None:
            skipped.append(f"graphs of {family} in {dtype} ({target.runner.obstacle})")
    different = [cell for cell in cells if cell["identical"] < cell["rows"]]
    return {"rates": _rates(cells), "different": different, "skipped": skipped}


def _requests(num_tokens: int, seed: int) -> list[Request]:
    """Five greedy and five sampled rows: ragged, with sources and predictions, of different lengths and seeds."""
    made = []
    for temperature, top_p in ((0.0, 1.0), (0.8, 0.9)):
        for i, length in enumerate(_PROMPT_LENGTHS):
            rng = random.Random(100 * seed + i)
            phrases = [[rng.randrange(4, SMALL_VOCAB) for _ in range(size)] for size in (3, 4, 5)]
            words = [token for _ in range(20) for token in rng.choice(phrases)]
            params = SamplingParams(temperature, top_p=top_p, max_new_tokens=num_tokens - 4 * i, seed=i)
            prompt = words[:length]
            made.append(Request(prompt, (words[length:],), prediction=prompt[::-1] + prompt, params=params))
    return made


def _alone(target: Target, num_tokens: int) -> list[list[int]]:
    plain = Engine(target, SilentTokenizer(), "none", prefix_rows=0)
    return [plain.generate([request])[0].token_ids for request in _requests(num_tokens, seed=0)]


def _compare(
    target: Target, family: str, mode: Mode, expected: list[list[int]], num_tokens: int
) -> Iterator[dict[str, Any]]:
    requests = _requests(num_tokens, seed=0)
    for drafter in drafters.ready_names():
        engine = Engine(
            target,
            SilentTokenizer(),
            drafter,
            exact=mode.is_guarded,
            max_rows=5,
            prefix_rows=0,
            budget=FixedBudget(_NUM_NODES),
        )
        for sampling, first in (("greedy", 0), ("sampled", 5)):
            for count in (1, 5):
                rows = range(first, first + count)
                cell = {"mode": mode.name, "family": family, "drafter": drafter, "sampling": sampling}
                try:
                    done = engine.generate([requests[i] for i in rows])
                except (RuntimeError, ValueError) as error:
                    yield {**cell, "rows": count, "identical": 0, "error": f"{type(error).__name__}: {error}"}
                    continue
                same = sum(c.token_ids == expected[i] for c, i in zip(done, rows, strict=True))
                yield {**cell, "rows": count, "identical": same}


def _rates(cells: list[dict[str, Any]]) -> dict[str, dict[str, float | int]]:
    rates: dict[str, dict[str, float | int]] = {}
    for mode in dict.fromkeys(cell["mode"] for cell in cells):
        mine = [cell for cell in cells if cell["mode"] == mode]
        rows, same = sum(cell["rows"] for cell in mine), sum(cell["identical"] for cell in mine)
        errors = sum("error" in cell for cell in mine)
        rates[mode] = {"rows": rows, "identical": same, "rate": round(same / rows, 4), "errors": errors}
    return rates
