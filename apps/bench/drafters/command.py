"""The command: every cell gets a round before any gets a second one, until the rounds or the minutes are over."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.bench.options import words
from apps.bench.report import hardware, publish, say
from apps.bench.timing import Failure
from apps.gec.metrics.corpora import DEFAULT_FOLDER
from apps.printing import told

if TYPE_CHECKING:
    from apps.bench.drafters.entries import Entry
    from apps.bench.drafters.measure import Place, Racer
    from apps.bench.drafters.prompts import Prompt
    from apps.bench.drafters.store import Store
    from core.targets.base import Target


@dataclass(frozen=True)
class DraftersBench:
    """What to measure. Empty `only`: every drafter. Empty `prompts`: what suits the model. `warm` prompts, which are
    not among the `items` measured, make the warm state. `nodes` 0: the engine's own budget, else a fixed one."""

    model: str = "data/models/gec-small"
    data: Path = DEFAULT_FOLDER
    prompts: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    rule_drafters: tuple[str, ...] = ("copy", "draft_model")
    temperatures: tuple[float, ...] = (0.0, 1.0)
    batches: tuple[int, ...] = (1, 8)
    items: int = 32
    warm: int = 16
    rounds: int = 3
    max_new_tokens: int = 96
    nodes: int = 0
    device: str = "auto"
    dtype: str = "auto"
    minutes: float = 15.0

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        for name in ("items", "warm", "rounds", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.nodes < 0:
            raise ValueError(f"nodes={self.nodes} must be 0 (the engine chooses) or more")
        if not self.temperatures or min(self.temperatures) < 0:
            raise ValueError(f"temperatures={self.temperatures} must be numbers from 0 on")
        if not self.batches or min(self.batches) < 1:
            raise ValueError(f"batches={self.batches} must be numbers from 1 on")
        if not self.minutes >= 0:
            raise ValueError(f"minutes={self.minutes} must be 0 (no bound) or more")

    @property
    def seconds(self) -> float:
        """The time there is."""
        return 60.0 * self.minutes or float("inf")


@dataclass(frozen=True)
class Cell:
    """An entry at a place."""

    place: Place
    entry: Entry

    @property
    def key(self) -> str:
        """What names it in the file."""
        p = self.place
        return f"{p.prompts} | t={p.temperature:g} | batch={p.rows} | {self.entry.name}"


class Run:
    """The target, the prompts and the entries of a run, and who races at which cell."""

    def __init__(self, bench: DraftersBench) -> None:
        from apps.bench.drafters.entries import entries, read_options
        from core.loading import load

        self.bench = bench
        self._target, self._tokenizer = load(bench.model, bench.device, bench.dtype)
        self.prompts = self._load_prompts(self._target)
        options = read_options(bench.options)
        self.entries, self.failures = entries(self._target, bench.only, options, bench.rule_drafters)
        self._racers: dict[str, Racer] = {}

    def _load_prompts(self, target: Target) -> dict[str, tuple[list[Prompt], list[Prompt]]]:
        """Of each set: the prompts measured, and the earlier ones that warm up."""
        from apps.bench.drafters.prompts import chat_wrap, load_prompts

        bench, wrap = self.bench, chat_wrap(self._tokenizer)
        names = bench.prompts or (("jfleg",) if target.is_encoder_decoder else ("rag", "chat"))
        found = {name: load_prompts(name, bench.data, bench.items + bench.warm, wrap) for name in names}
        for name, prompts in found.items():
            if len(prompts) < 2:
                raise ValueError(f"{name} holds {len(prompts)} prompts; at least 2 are needed, 1 to warm up")
        # Where there are too few, half of them measure.
        measured = {
            name: min(bench.items, (len(p) + 1) // 2) for name, p in found.items() if len(p) <= bench.items
        }
        cut = {name: measured.get(name, bench.items) for name in found}
        return {Path(name).name: (p[: cut[name]], p[cut[name] :]) for name, p in found.items()}

    def header(self) -> dict[str, Any]:
        """What must be the same for a run to go on from the file of another."""
        bench = self.bench
        texts = repr(self.prompts).encode()
        names = ("items", "warm", "max_new_tokens", "nodes", "device", "dtype", "options")
        return {
            "hardware": hardware(),
            "model": Path(bench.model).name,
            "settings": {
                **{name: getattr(bench, name) for name in names},
                "prompts": hashlib.sha256(texts).hexdigest()[:16],
            },
        }

    def cells(self) -> Iterator[Cell]:
        """Every entry at every place."""
        from apps.bench.drafters.measure import Place

        wanted = itertools.product(self.prompts, self.bench.temperatures, self.bench.batches)
        return (Cell(Place(*place), entry) for place in wanted for entry in self.entries)

    def round(self, cell: Cell, store: Store) -> None:
        """One round of a cell, and what its warm-up showed."""
        from apps.bench.drafters.measure import Racer, loss_of

        if cell.key not in self._racers:
            bench = self.bench
            self._racers[cell.key] = Racer(
                self._target, self._tokenizer, cell.entry, cell.place, bench.max_new_tokens, bench.nodes
            )
        kept = store.open_cell(cell.key, cell.place, cell.entry.drafter, cell.entry.rule)
        measured, earlier = self.prompts[cell.place.prompts]
        sides, watched = self._racers[cell.key].round(len(kept["rounds"]), measured, earlier)
        kept["bytes"] = max(kept["bytes"], watched.peak_bytes)
        kept["loss"] = kept["loss"] or loss_of(cell.entry, cell.place, watched)
        store.add(cell.key, sides)


def run(bench: DraftersBench, out: Path | None = None) -> dict[str, Any]:
    """Measure until the rounds or the minutes are over; what `out` holds already is not measured again.

    Raises ValueError where nothing could be measured, and FileNotFoundError where the prompts are absent.
    """
    from apps.bench.drafters.store import Store

    started = time.monotonic()
    whole = Run(bench)
    store = Store(out, whole.header())
    left_out = ", ".join(failure.name for failure in whole.failures)
    say(f"{len(whole.entries)} entries, {len(list(whole.cells()))} cells; left out: {left_out or 'none'}")
    failures = whole.failures + _race(whole, store, started)
    store.result["skipped"] = [asdict(failure) for failure in failures]
    store.save()
    if not any(cell["rounds"] for cell in store.cells.values()):
        reasons = "; ".join(f"{f.name}: {f.reason}" for f in failures) or "give more --minutes"
        raise ValueError(f"nothing was measured: {reasons}")
    return store.result


def _race(whole: Run, store: Store, started: float) -> list[Failure]:
    """Round after round, every cell in each, while there is time; returns the cells that cannot run."""
    import torch

    failed: dict[str, Failure] = {}
    took: dict[str, float] = {}
    for number, cell in itertools.product(range(whole.bench.rounds), list(whole.cells())):
        if store.rounds(cell.key) > number or cell.key in failed:
            continue
        began = time.monotonic()
        if began - started + took.get(cell.key, 0.0) > whole.bench.seconds:
            say("the time is over; the same command with the same --out goes on from here")
            break
        say(f"{began - started:6.1f} s  round {number + 1}  {cell.key}")
        try:
            whole.round(cell, store)
        except (ValueError, torch.OutOfMemoryError) as problem:
            failed[cell.key] = Failure(cell.key, str(problem).split("\n")[0])
        took[cell.key] = time.monotonic() - began
    return list(failed.values())


def main(
    model: Annotated[str, typer.Option(help="Target: folder or hub id.")] = DraftersBench.model,
    data: Annotated[Path, typer.Option(help="Folder of the shared prompts.")] = DraftersBench.data,
    prompts: Annotated[
        str,
        typer.Option(help="jfleg, rag, chat or files.jsonl, comma between; by default what suits the model."),
    ] = "",
    only: Annotated[str, typer.Option(help="Drafters, comma between; by default all.")] = "",
    option: Annotated[
        list[str] | None, typer.Option(help="DRAFTER.OPTION=VALUE, e.g. draft_model.model=DIR; repeatable.")
    ] = None,
    rule_drafters: Annotated[
        str, typer.Option(help="Drafters that also run under the other rules.")
    ] = ",".join(DraftersBench.rule_drafters),
    temperatures: Annotated[str, typer.Option(help="Comma between.")] = "0,1",
    batches: Annotated[str, typer.Option(help="Rows at once, comma between.")] = "1,8",
    items: Annotated[int, typer.Option(help="Prompts of each set.")] = DraftersBench.items,
    warm: Annotated[
        int, typer.Option(help="Other prompts, decoded before the warm state.")
    ] = DraftersBench.warm,
    rounds: Annotated[int, typer.Option(help="Rounds, at most; times are medians.")] = DraftersBench.rounds,
    max_new_tokens: Annotated[int, typer.Option(help="Longest output.")] = DraftersBench.max_new_tokens,
    nodes: Annotated[
        int, typer.Option(help="Always so many nodes; 0: what pays, as measured.")
    ] = DraftersBench.nodes,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = DraftersBench.device,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, ...")] = DraftersBench.dtype,
    minutes: Annotated[
        float, typer.Option(help="No round begins that would end later; 0: no bound.")
    ] = DraftersBench.minutes,
    out: Annotated[
        Path | None, typer.Option(help="Keep rounds in this file as they come, and go on from it.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw the speeds into this picture.")] = None,
) -> None:
    """The survey's table: every drafter and rule beside plain decoding, the same prompts, in turn."""
    from apps.bench.drafters.table import draw, show

    with told(ValueError, FileNotFoundError):
        bench = DraftersBench(
            model, data, words(prompts), words(only), tuple(option or ()), words(rule_drafters),
            tuple(float(t) for t in words(temperatures)), tuple(int(b) for b in words(batches)),
            items, warm, rounds, max_new_tokens, nodes, device, dtype, minutes,
        )  # fmt: skip
        result = run(bench, out)
        show(result)
        if plot is not None:
            draw(result, plot)
        publish(_summary(result), None)


def _summary(result: dict[str, Any]) -> dict[str, Any]:
    """The result with figures in place of rounds."""
    from apps.bench.drafters.figures import places, row

    rows = [
        {"prompts": place[0], "temperature": place[1], "batch": place[2], **row(cell, state)}
        for place, cells in places(result)
        for cell in cells
        for state in ("cold", "warm")
    ]
    return {**{name: value for name, value in result.items() if name != "cells"}, "rows": rows}
