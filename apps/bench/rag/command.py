"""`python -m apps.bench rag`: answers from documents, end to end, against other runtimes on the same weights.

Part (a) of two; part (b), recorded answers replayed, is `bench replay`. Every contestant looks the same questions up in
the same index, reads the same prompts and writes greedy answers, one question at a time, in a process of its own,
taking turns with the others in every round. A figure is the median over the rounds of the time for all questions,
search and prompt reading included, divided by their number. Nothing is known from an earlier round: no engine keeps
prompts that it has read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from apps.bench import options
from apps.bench.contestants import Contestant
from apps.bench.field import Admitted, Slot, admit
from apps.bench.figures import phases_ms, row
from apps.bench.pacing import MIN_ROUNDS, pace
from apps.bench.rag.contestants import BASELINE, CONTESTANTS, PLAIN
from apps.bench.report import hardware, hardware_line, print_table, publish, say
from apps.bench.timing import Failure, Timing, race
from apps.bench.worker import Job
from apps.gec.metrics.corpora import DEFAULT_FOLDER
from apps.printing import told


@dataclass(frozen=True)
class RagBench:
    """What to measure; `limit` and `rounds` are cut to what fits into `minutes` (0: no bound)."""

    model: Path = Path("data/models/chat-small")
    data: Path = DEFAULT_FOLDER
    limit: int = 40
    rounds: int = 5
    k: int = 5
    max_new_tokens: int = 96
    only: tuple[str, ...] = ()
    minutes: float = 8.0

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        for name in ("limit", "rounds", "k", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        options.need_contestants(self.only, [contestant.name for contestant in CONTESTANTS])
        if not self.minutes >= 0:
            raise ValueError(f"minutes={self.minutes} must be 0 (no bound) or more")
        if not (self.model / "config.json").is_file():
            raise ValueError(
                f"there is no model at {self.model}; give the folder of a chat model with --model"
            )

    def contestants(self, index: Path) -> list[Contestant]:
        """Those that take part, each told where the index lies; the two references always do."""
        wanted = [
            c
            for c in CONTESTANTS
            if c.name in (BASELINE, PLAIN) or not self.only or any(word in c.name for word in self.only)
        ]
        return [replace(c, options={**c.options, "index": str(index), "k": self.k}) for c in wanted]


def _converted(model: Path, stack: ExitStack) -> tuple[str, list[Failure]]:
    """A copy of the weights for CTranslate2; empty, with the reason, where there can be none."""
    from apps.bench.peers import ctranslate2_copy

    try:
        return str(stack.enter_context(ctranslate2_copy(model))), []
    except (ImportError, ValueError, RuntimeError, AttributeError) as error:
        return "", [Failure("CTranslate2", f"{type(error).__name__}: {error}".split("\n")[0])]


def _admitted(
    bench: RagBench, index: Path, slot: Slot, stack: ExitStack
) -> tuple[list[Admitted], list[Failure]]:
    """Everyone who can run. Raises ValueError where the baseline is not among them."""
    converted, failures = _converted(bench.model, stack)
    job = Job(str(bench.model), bench.max_new_tokens, 1, converted)
    field = []
    for contestant in bench.contestants(index):
        if contestant.kind == "chat_ctranslate2" and not converted:
            continue
        say(f"loading, choosing settings: {contestant.name}")
        admitted, refused = admit(contestant, contestant.settings, job, [slot], stack)
        failures += [*refused, *admitted.failures.values()]
        if slot.key in admitted.choices:
            field.append(admitted)
        elif contestant.name == BASELINE:
            raise ValueError(f"{bench.model}: {BASELINE} cannot run: {'; '.join(f.reason for f in failures)}")
    return field, failures


def _figures(timings: Sequence[Timing]) -> list[dict[str, Any]]:
    """A row for each contestant: milliseconds, ratios, and how many answers equal each reference's."""
    by_name = {timing.name: timing for timing in timings}
    base = by_name[BASELINE]
    lookup = by_name.get("transformers prompt lookup float32")
    rivals = [t.ms_per_text for t in timings if t.name.startswith("CTranslate2")]
    best = {
        "transformers": base.ms_per_text,
        "prompt_lookup": lookup.ms_per_text if lookup else None,
        "ctranslate2": min(rivals) if rivals else None,
    }
    entries = [row(timing, base.runs[-1].outputs, best) for timing in timings]
    if PLAIN in by_name:
        plain = by_name[PLAIN].runs[-1].outputs
        for entry, timing in zip(entries, timings, strict=True):
            entry["identical_to_plain"] = row(timing, plain, {})["identical"]
    return entries


def run(bench: RagBench) -> dict[str, Any]:
    """Measure; return what the JSON line holds."""
    from apps.bench.rag.questions import prepare

    started = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="echodraft-rag-")))
        questions = prepare(bench.data, folder, bench.limit)
        slot = Slot("questions", "single", 1, questions)
        field, failures = _admitted(bench, folder / "index", slot, stack)
        costs = {a.name: a.choices[slot.key].seconds_per_text for a in field}
        end = started + 60.0 * bench.minutes if bench.minutes else float("inf")
        chosen = pace({slot.key: costs}, end - time.monotonic(), len(questions), bench.rounds)
        say(f"{chosen.sentences} questions, {chosen.rounds} rounds, about {chosen.seconds / 60:.1f} minutes")
        timings, failed = race(
            [a.entrant(slot, chosen.rounds_of(a.name, costs)) for a in field],
            questions[: chosen.sentences],
            1,
            min_rounds=min(bench.rounds, MIN_ROUNDS),
            deadline=end,
            on_progress=say,
        )
    return {
        "bench": "rag",
        "hardware": hardware(),
        "model": bench.model.name,
        "settings": {
            name: getattr(bench, name) for name in ("limit", "rounds", "k", "max_new_tokens", "minutes")
        },
        "minutes": (time.monotonic() - started) / 60,
        "questions": chosen.sentences,
        "entries": _figures(timings),
        "phases_ms": phases_ms(timings),
        "failures": [asdict(failure) for failure in (*failures, *failed)],
    }


_COLUMNS = (
    "",
    "ms / question",
    "x greedy",
    "x its lookup",
    "x CTranslate2",
    "identical",
    "to plain",
    "passes",
    "setting",
)


def show(result: dict[str, Any]) -> None:
    """Print the table on standard error."""

    def figure(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    say(hardware_line(result["hardware"]))
    rows = [
        [
            entry["name"],
            *(figure(entry[key], ".2f") for key in ("ms", "times_transformers", "times_prompt_lookup")),
            figure(entry["times_ctranslate2"], ".2f"),
            *(figure(entry.get(key), ".1%") for key in ("identical", "identical_to_plain")),
            figure(entry["passes"], ".2f"),
            entry["setting"],
        ]
        for entry in result["entries"]
    ]
    print_table(f"{result['model']}, {result['questions']} questions end to end", _COLUMNS, rows)
    for failure in result["failures"]:
        say(f"{failure['name']} could not run: {failure['reason']}")
    for name, phases in result["phases_ms"].items():
        say(f"{name}, ms a question: " + ", ".join(f"{phase} {spent:.2f}" for phase, spent in phases.items()))


def main(
    model: Annotated[Path, typer.Option(help="Folder of a decoder-only chat model.")] = RagBench.model,
    data: Annotated[Path, typer.Option(help="Folder that holds qa/.")] = RagBench.data,
    limit: Annotated[int, typer.Option(help="Questions, at most.")] = RagBench.limit,
    rounds: options.Rounds = RagBench.rounds,
    k: Annotated[int, typer.Option("--k", help="Passages to look up.")] = RagBench.k,
    max_new_tokens: options.MaxNewTokens = RagBench.max_new_tokens,
    only: options.Only = "",
    minutes: options.Minutes = RagBench.minutes,
    out: options.Out = None,
) -> None:
    """Answers from documents raced against the same two.

    transformers and CTranslate2 with the same weights, in one run, taking turns.
    """
    with told(ValueError):
        result = run(RagBench(model, data, limit, rounds, k, max_new_tokens, options.words(only), minutes))
        show(result)
        publish(result, out)
