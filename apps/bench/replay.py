"""`python -m apps.bench replay`: drafters compared on recorded answers, without a large model.

Forced replay: the recorded answer is taken as what the target says, so each drafter sees the very texts it would have
seen, and its guesses are judged by the record. With a model the target's passes are really run (their time is told);
with `--count-only` they are not. Same tokenizer for all; tokens per pass count the token that the target gives for
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.bench import options
from apps.bench.recordings import SETS, Item, load_items
from apps.bench.report import hardware, print_table, publish, say
from apps.gec.metrics.corpora import DEFAULT_FOLDER
from apps.printing import told

if TYPE_CHECKING:
    from core.drafters.base import Drafter
    from core.types import DraftTree, Sequence

#: Baselines keep the lengths they were published with; more room than that does not help them.
RIVALS = ("llma", "prompt_lookup")


@dataclass(frozen=True)
class ReplayBench:
    """What to replay. `model` runs the passes (None: a small random Llama); `tokenizer` cuts the texts for all."""

    data: Path = DEFAULT_FOLDER
    tokenizer: str = "data/models/gec-small"
    model: str | None = None
    count_only: bool = False
    items: int = 100
    limits: tuple[int, ...] = (16, 32)

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        for name, least in (("items", self.items), ("limits", min(self.limits, default=0))):
            if least < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")


@dataclass
class Tally:
    """What a drafter did; seconds of counted replays are the thread's own, not the wall's."""

    tokens: int = 0
    passes: int = 0
    nodes: int = 0
    draft_seconds: float = 0.0
    pass_seconds: float = 0.0

    def figures(self) -> dict[str, float]:
        """Rates of the whole set."""
        return {
            "tokens_per_pass": self.tokens / self.passes,
            "nodes_per_pass": self.nodes / self.passes,
            "draft_us_per_pass": 1e6 * self.draft_seconds / self.passes,
            "target_us_per_pass": 1e6 * self.pass_seconds / self.passes,
        }


@dataclass(frozen=True)
class Entry:
    """A drafter as it is measured: cold, or after it has seen the set once (`is_warm`)."""

    name: str
    make: Callable[[], Drafter]
    is_warm: bool = False


@dataclass
class Clock:
    """Adds the thread's time to what is measured."""

    spent: float = 0.0

    def __enter__(self) -> None:
        self.spent -= time.thread_time()

    def __exit__(self, *_: object) -> None:
        self.spent += time.thread_time()


def count(drafter: Drafter, items: Seq[Item], limit: int) -> Tally:
    """Replay without passes: every tree is judged by the record."""
    import torch

    from core.targets.base import PassOutput
    from core.verification import walk

    tally, clock, nothing = Tally(), Clock(), PassOutput(torch.empty(0))
    for number, item in enumerate(items):
        row = _row(number, item)
        with clock:
            drafter.begin(row)
        while row.remaining:
            with clock:
                (tree,) = drafter.propose([row], [min(limit, row.remaining - 1)])
            truth = item.output[len(row.output_ids) :]
            verdict = walk(tree, _said(tree, truth))
            written = [*(tree.tokens[node] for node in verdict.path), verdict.bonus]
            row.tokens += written[: row.remaining]
            tally.passes += 1
            tally.nodes += len(tree)
            with clock:
                drafter.observe([row], [tree], [verdict], nothing)
        row.finish_reason = "stop"
        with clock:
            drafter.end(row)
        tally.tokens += len(item.output)
    tally.draft_seconds = clock.spent
    return tally


def _row(number: int, item: Item) -> Sequence:
    from core.types import Request, SamplingParams, Sequence

    return Sequence(
        id=number,
        request=Request(item.prompt),
        params=SamplingParams(),
        prompt_ids=item.prompt,
        tokens=list(item.prompt),
        source_ids=item.sources,
        max_tokens=len(item.output),
    )


def _said(tree: DraftTree, truth: Seq[int]) -> list[int]:
    """What the target says behind the pending token and behind every node: a matter of depth alone."""
    padded = [*truth, *[-1] * (len(tree) + 1)]
    return [padded[0], *(padded[depth] for depth in tree.depths())]


class PassRunner:
    """Replay with real passes: the engine of every day over a target that says what was recorded."""

    def __init__(self, model: str | None, vocab_size: int) -> None:
        from apps.bench.gpu.replay import ReplayTarget
        from apps.bench.random_model import random_llama

        self._target = ReplayTarget(random_llama(vocab_size) if model is None else _loaded(model))

    def __call__(self, drafter: Drafter, items: Seq[Item], limit: int) -> Tally:
        """One row at a time."""
        from apps.bench.gpu.models import SilentTokenizer
        from apps.bench.gpu.replay import Text
        from core import Engine, Request, SamplingParams
        from core.budget import FixedBudget

        budget = FixedBudget(limit)
        engine = Engine(self._target, SilentTokenizer(), drafter, max_rows=1, prefix_rows=0, budget=budget)
        tally = Tally()
        for item in items:
            self._target.record([Text(item.prompt, item.output)], 1)
            params = SamplingParams(max_new_tokens=len(item.output))
            (done,) = engine.generate([Request(item.prompt, tuple(item.sources), params=params)])
            if done.token_ids != item.output:
                raise RuntimeError("the replayed tokens are not those recorded")
            tally.tokens += done.stats.emitted
            tally.passes += done.stats.target_calls
            tally.nodes += done.stats.drafted
        seconds = engine.stats.seconds
        tally.draft_seconds = seconds.propose + seconds.observe
        tally.pass_seconds = seconds.forward
        return tally


def _loaded(model: str) -> Any:
    import torch

    from core.loading import load_model

    return load_model(model, torch.device("cpu"), torch.float32)


def entries() -> list[Entry]:
    """Who takes part."""
    from core.drafters.copy import Copy
    from core.drafters.llma import Llma
    from core.drafters.prompt_lookup import PromptLookup
    from core.drafters.shared_answers import SharedAnswers

    def copy() -> Drafter:
        return Copy(is_aligned=False)

    return [
        Entry("prompt_lookup", PromptLookup),
        Entry("llma", Llma),
        Entry("copy", copy),
        Entry("copy, warm calibration", copy, is_warm=True),
        Entry("copy, earlier answers", lambda: Copy(is_aligned=False, answers=SharedAnswers())),
    ]


def compare(items: Seq[Item], limit: int, replay: Callable[..., Tally]) -> Iterator[dict[str, Any]]:
    """Every entry at one node limit."""
    rates: dict[str, float] = {}
    for entry in entries():
        drafter = entry.make()
        if entry.is_warm:
            count(drafter, items, limit)
        figures = replay(drafter, items, limit).figures()
        rates[entry.name] = figures["tokens_per_pass"]
        against = {f"times_{rival}": rates[entry.name] / rates[rival] for rival in RIVALS if rival in rates}
        yield {"drafter": entry.name, "limit": limit, **figures, **against}


def run(bench: ReplayBench) -> dict[str, Any]:
    """Replay every set at every limit; return what the JSON line holds."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(bench.tokenizer)

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return ids

    replay = count if bench.count_only else PassRunner(bench.model, len(tokenizer))
    sets: dict[str, Any] = {}
    for name, file in SETS.items():
        items = load_items(bench.data / file, encode, bench.items)
        say(f"{name}: {len(items)} recordings")
        cells = [cell for limit in bench.limits for cell in compare(items, limit, replay)]
        sets[name] = {"items": len(items), "cells": cells}
    return {
        "bench": "replay",
        "hardware": hardware(),
        "tokenizer": Path(bench.tokenizer).name,
        "passes": "counted" if bench.count_only else "run",
        "sets": sets,
    }


def show(result: dict[str, Any]) -> None:
    """The figures as tables on standard error."""
    columns = ("drafter", "nodes at most", "tokens/pass", "nodes/pass", "draft us/pass", *RIVALS)
    for name, found in result["sets"].items():
        rows = [
            (
                cell["drafter"],
                str(cell["limit"]),
                f"{cell['tokens_per_pass']:.2f}",
                f"{cell['nodes_per_pass']:.1f}",
                f"{cell['draft_us_per_pass']:.0f}",
                *(f"{cell[f'times_{r}']:.3f}x" if f"times_{r}" in cell else "" for r in RIVALS),
            )
            for cell in found["cells"]
        ]
        print_table(f"Forced replay, {name}, {found['items']} recordings", columns, rows)


def main(
    data: Annotated[Path, typer.Option(help="Folder that holds the recordings.")] = ReplayBench.data,
    tokenizer: Annotated[str, typer.Option(help="Tokenizer for all: folder or id.")] = ReplayBench.tokenizer,
    model: Annotated[str | None, typer.Option(help="Decoder-only model whose passes are run.")] = None,
    count_only: Annotated[
        bool, typer.Option("--count-only", help="Run no passes; count them.")
    ] = ReplayBench.count_only,
    items: Annotated[int, typer.Option(help="Recordings of each set.")] = ReplayBench.items,
    limits: Annotated[str, typer.Option(help="Most nodes of a tree, comma between.")] = "16,32",
    out: options.Out = None,
) -> None:
    """Recorded answers replayed: tokens per pass.

    Of the drafter copy beside LLMA and prompt lookup; the recorded tokens are forced, whatever a model would write.
    """
    with told(ValueError, FileNotFoundError):
        counts = options.numbers("limits", limits)
        result = run(ReplayBench(data, tokenizer, model, count_only, items, counts))
        show(result)
        publish(result, out)
