"""The command: its parts in turn, each within its share of the time, and the files that it leaves."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import transformers
import typer

from apps.bench.gpu.clock import Deadline, free_bytes
from apps.bench.gpu.identity import check_identity
from apps.bench.gpu.models import SHAPES, TINY, LlamaShape, big_model, switch_on_graphs
from apps.bench.gpu.passes import GRID, LONG, LOOPS, QUICK_GRID, QUICK_LOOPS, time_loop, time_passes
from apps.bench.gpu.replay import ReplayTarget, Variant, replay_batches
from apps.bench.gpu.summary import summary_markdown
from apps.bench.report import hardware, say
from core.loading import pick_device
from core.targets.runners import StaticRunner

#: Seconds for the identity part and for the shapes that are only timed; the replay takes what is left.
_IDENTITY_SECONDS = 150.0
_SHAPE_SECONDS = 45.0


@dataclass(frozen=True)
class Plan:
    """What is run: all of it, or a tiny version that shows in seconds that everything works."""

    shapes: tuple[LlamaShape, ...] = SHAPES
    grid: tuple[tuple[int, int, int], ...] = (*GRID, *LONG)
    loops: tuple[tuple[int, int], ...] = tuple(LOOPS)
    loop_length: int = 512
    num_steps: int = 24
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    variants: tuple[Variant, ...] = (
        Variant("none"),
        Variant("copy"),
        Variant("copy", is_primed=True),
        Variant("prompt_lookup"),
    )
    replay_lengths: tuple[int, int] = (512, 128)
    rounds: int = 3
    identity_tokens: int = 32
    dtype: torch.dtype = torch.bfloat16
    is_quick: bool = False


QUICK = Plan(
    shapes=(TINY,),
    grid=tuple(QUICK_GRID),
    loops=tuple(QUICK_LOOPS),
    loop_length=40,
    num_steps=6,
    batch_sizes=(1, 3),
    replay_lengths=(48, 24),
    rounds=1,
    identity_tokens=18,
    dtype=torch.float32,
    is_quick=True,
)


def main(
    out: Annotated[Path, typer.Option(help="Folder for gpu.json and gpu.md.")],
    device: Annotated[
        str, typer.Option(help="cuda, cuda:N, or cpu (with --quick) to try the command.")
    ] = "cuda",
    minutes: Annotated[float, typer.Option(help="What would take longer is left out, and named.")] = 8.5,
    quick: Annotated[bool, typer.Option("--quick", help="A tiny version of every part.")] = False,
) -> None:
    """Identity, the price of a pass and replay on a GPU.

    Random weights, no network. What is measured is written after each part.
    """
    try:
        where = pick_device(device)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--device") from error
    if where.type == "cpu" and not quick:
        raise typer.BadParameter(
            "the full benchmark needs a GPU; add --quick on a CPU", param_hint="--device"
        )
    transformers.logging.set_verbosity_error()
    torch.set_float32_matmul_precision("highest")
    if where.type == "cpu":
        torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    result = run(where, QUICK if quick else Plan(), Deadline(60 * minutes), out)
    print(json.dumps({key: result[key] for key in ("benchmark", "seconds", "identity", "replay", "skipped")}))


def run(device: torch.device, plan: Plan, deadline: Deadline, out: Path) -> dict[str, Any]:
    """All parts; the files are written after each, so that what was measured is never lost."""
    result: dict[str, Any] = {
        "benchmark": "gpu",
        "hardware": hardware() | _device_facts(device),
        "command": " ".join(sys.argv),
        "quick": plan.is_quick,
        "seconds": 0.0,
        "identity": {},
        "passes": {},
        "loop": {},
        "replay": {},
        "skipped": [],
    }

    def save(progress: str) -> None:
        result["seconds"] = round(deadline.spent, 1)
        (out / "gpu.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (out / "gpu.md").write_text(summary_markdown(result), encoding="utf-8")
        say(f"{deadline.spent:6.1f} s  {progress}")

    save("identity of outputs")
    identity = check_identity(device, deadline.part(_IDENTITY_SECONDS), plan.identity_tokens, plan.is_quick)
    result["skipped"] += identity.pop("skipped")
    result["identity"] = identity
    shapes = _affordable(plan, device, result["skipped"])
    for shape in shapes:
        save(f"passes of {shape.name}")
        if deadline.is_over:
            result["skipped"].append(f"passes of {shape.name} (no time)")
            continue
        _measure(shape, device, plan, deadline, result, is_replayed=shape is shapes[0], save=save)
    save("done")
    return result


def _measure(
    shape: LlamaShape,
    device: torch.device,
    plan: Plan,
    deadline: Deadline,
    result: dict[str, Any],
    *,
    is_replayed: bool,
    save: Any,
) -> None:
    """One shape: its bare passes, what the loop adds and, for the first shape, the replay."""
    target = ReplayTarget(big_model(shape, plan.dtype, device))
    switch_on_graphs(target)
    part = deadline.part(_SHAPE_SECONDS)
    result["passes"][shape.name], skipped = time_passes(target, plan.grid, part, rounds=5)
    result["skipped"] += [f"{shape.name}: {name}" for name in skipped]
    part = deadline.part(_SHAPE_SECONDS)
    loops = time_loop(target, plan.loops, plan.loop_length, plan.num_steps, part)
    result["loop"][shape.name], skipped = loops
    result["skipped"] += [f"{shape.name}: {name}" for name in skipped]
    if is_replayed:
        save(f"replay at {shape.name}")
        # The other shapes need a little of what is left.
        reserve = 0.2 * max(deadline.left, 0.0) if len(plan.shapes) > 1 else 0.0
        part = deadline.part(deadline.left - reserve)
        replayed = replay_batches(
            target, plan.batch_sizes, plan.variants, plan.replay_lengths, part, plan.rounds
        )
        result["skipped"] += [f"{shape.name}: {name}" for name in replayed.pop("skipped")]
        result["replay"] = {"shape": shape.name, **replayed}
    assert isinstance(target.runner, StaticRunner)
    if target.runner.obstacle is not None:
        result["skipped"].append(f"graphs of {shape.name} from some shape on ({target.runner.obstacle})")


def _affordable(plan: Plan, device: torch.device, skipped: list[str]) -> list[LlamaShape]:
    """Shapes whose weights leave at least a fifth of the free memory to caches and activations."""
    free = free_bytes(device)
    kept = [s for s in plan.shapes if s.num_parameters * plan.dtype.itemsize < 0.8 * free]
    skipped += [f"{s.name} (no memory)" for s in plan.shapes if s not in kept]
    return kept


def _device_facts(device: torch.device) -> dict[str, Any]:
    if device.type != "cuda":
        return {"device": str(device)}
    facts = torch.cuda.get_device_properties(device)
    return {
        "device": facts.name,
        "device_memory_gib": round(facts.total_memory / 2**30, 1),
        "compute_capability": f"{facts.major}.{facts.minor}",
        "cuda": torch.version.cuda,
    }
