"""`python -m apps.bench gec`: grammar correction against other runtimes on the same weights.

Every contestant corrects the same sentences, tokenisation and detokenisation included, one sentence at a
time and then the whole set with at most 32 rows at once, in a process of its own, taking turns with the others
in every round; while one is at work the others sleep. A figure is the median over the rounds of the time
for the whole set, divided by its sentences. Each contestant runs with the setting (threads, workers, batch) that
was fastest for it on the first sentences. Our engine forgets its memory of edits before every round: what it
learns within a round is the method's own gain, what it would know from the last round is not.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer

from apps.bench import options
from apps.bench.contestants import BASELINE, CONTESTANTS, Contestant, Setting
from apps.bench.field import Admitted, Slot, admit
from apps.bench.figures import phases_ms, row
from apps.bench.pacing import MIN_ROUNDS, Pace, pace
from apps.bench.report import hardware, publish, say
from apps.bench.timing import Failure, race
from apps.bench.worker import Job
from apps.gec.metrics.corpora import DEFAULT_FOLDER, SAMPLES, MissingSet, load_set, sample_sentences
from apps.gec.metrics.passes import novel_tokens
from apps.printing import told

SETS = ("jfleg", "cweb_g")


@dataclass(frozen=True)
class GecBench:
    """What to measure. `threads` are torch's to choose from; `only` keeps contestants whose name holds one of
    its words, and the baseline; `limit` and `rounds` are cut to what fits into `minutes` (0: no bound)."""

    model: Path = Path("data/models/gec-small")
    data: Path = DEFAULT_FOLDER
    limit: int = 150
    rounds: int = 5
    rows: int = 32
    max_new_tokens: int = 128
    threads: tuple[int, ...] = (1, 2)
    only: tuple[str, ...] = ()
    minutes: float = 8.0

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        for name in ("limit", "rounds", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.rows < 2:
            raise ValueError(f"rows={self.rows} must be at least 2; single sentences are measured anyway")
        if not self.minutes >= 0:
            raise ValueError(f"minutes={self.minutes} must be 0 (no bound) or more")
        known = {setting.threads for c in CONTESTANTS if c.kind != "ctranslate2" for setting in c.settings}
        if not known & set(self.threads):
            raise ValueError(f"threads={self.threads} match no setting; there are {sorted(known)}")
        options.need_contestants(self.only, [contestant.name for contestant in CONTESTANTS])
        if not self.model.is_dir():
            raise ValueError(f"there is no model at {self.model}; give the folder of one with --model")

    def wants(self, name: str) -> bool:
        """Whether this contestant takes part."""
        return name == BASELINE or not self.only or any(word in name for word in self.only)

    def settings_of(self, contestant: Contestant) -> list[Setting]:
        """The settings it may choose from; CTranslate2 always gets its best."""
        free = contestant.kind == "ctranslate2"
        return [setting for setting in contestant.settings if free or setting.threads in self.threads]

    @property
    def seconds(self) -> float:
        """The time there is."""
        return 60.0 * self.minutes or float("inf")


def _texts(bench: GecBench) -> dict[str, list[str]]:
    """The sentences by set; the samples that ship where the evaluation sets are absent."""
    try:
        return {name: load_set(name, bench.data).head(bench.limit).sentences for name in SETS}
    except MissingSet as missing:
        say(f"{missing}; measuring on the samples in {SAMPLES.name} instead")
    return {"samples": sample_sentences()[: bench.limit]}


def _slots(bench: GecBench, texts: dict[str, list[str]]) -> list[Slot]:
    modes = (("single", 1), ("batch", bench.rows))
    return [Slot(name, mode, rows, own) for name, own in texts.items() for mode, rows in modes]


def _job(bench: GecBench, contestants: Sequence[Contestant], stack: ExitStack) -> tuple[Job, list[Failure]]:
    """What all workers load; CTranslate2's copy of the weights lives as long as the stack."""
    job = Job(str(bench.model), bench.max_new_tokens, bench.rows)
    if not any(contestant.kind == "ctranslate2" for contestant in contestants):
        return job, []
    from apps.bench.peers import ctranslate2_copy

    try:
        converted = stack.enter_context(ctranslate2_copy(bench.model))
    except (ImportError, ValueError, RuntimeError, AttributeError) as error:
        return job, [Failure("CTranslate2", f"{type(error).__name__}: {error}".split("\n")[0])]
    return Job(job.model, job.max_new_tokens, job.max_rows, str(converted)), []


def _admit_all(
    bench: GecBench, slots: Sequence[Slot], stack: ExitStack
) -> tuple[list[Admitted], list[Failure]]:
    """Everyone who can run. Raises ValueError where that leaves out the baseline."""
    contestants = [contestant for contestant in CONTESTANTS if bench.wants(contestant.name)]
    job, failures = _job(bench, contestants, stack)
    field = []
    for contestant in contestants:
        if contestant.kind == "ctranslate2" and not job.converted:
            continue
        say(f"loading, choosing settings: {contestant.name}")
        admitted, refused = admit(contestant, bench.settings_of(contestant), job, slots, stack)
        failures += refused
        field.append(admitted)
        if contestant.name == BASELINE and len(admitted.choices) < len(slots):
            reasons = [failure.reason for failure in (*refused, *admitted.failures.values())]
            raise ValueError(f"{bench.model}: {BASELINE} cannot run: {'; '.join(reasons)}")
    return field, failures


def _source_ids(bench: GecBench, texts: Sequence[str]) -> list[list[int]]:
    """Each text's own tokens."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(bench.model)
    special = set(tokenizer.all_special_ids)
    return [[i for i in ids if i not in special] for ids in tokenizer(list(texts))["input_ids"]]


def _measure(
    bench: GecBench, field: Sequence[Admitted], slot: Slot, chosen: Pace, deadline: float
) -> dict[str, Any]:
    """Race everyone over one set in one mode."""
    costs = _costs(field, slot)
    entrants = [a.entrant(slot, chosen.rounds_of(a.name, costs)) for a in field if a.name in costs]
    texts = slot.texts[: chosen.sentences]
    timings, failures = race(
        entrants,
        texts,
        slot.rows,
        min_rounds=min(bench.rounds, MIN_ROUNDS),
        deadline=deadline,
        on_progress=lambda words: say(f"{slot.key}: {words}"),
    )
    by_name = {timing.name: timing for timing in timings}
    if BASELINE not in by_name:
        raise ValueError(f"{BASELINE} did not finish: {'; '.join(failure.reason for failure in failures)}")
    reference = by_name[BASELINE].runs[-1].outputs
    rivals = [t.ms_per_text for t in timings if t.name.startswith("CTranslate2")]
    best = {"transformers": by_name[BASELINE].ms_per_text, "ctranslate2": min(rivals) if rivals else None}
    sources = _source_ids(bench, texts)
    reachable = [1 + novel_tokens(ids, out.token_ids) for ids, out in zip(sources, reference, strict=True)]
    failures += [a.failures[slot.key] for a in field if slot.key in a.failures]
    return {
        "rows": slot.rows,
        "passes_of_perfect_copying": fmean(reachable),
        "entries": [row(timing, reference, best) for timing in timings],
        "failures": [asdict(failure) for failure in failures],
        "phases_ms": phases_ms(timings),
    }


def _costs(field: Sequence[Admitted], slot: Slot) -> dict[str, float]:
    """Seconds per text of everyone who can run here."""
    return {a.name: a.choices[slot.key].seconds_per_text for a in field if slot.key in a.choices}


def _race_all(
    bench: GecBench, field: Sequence[Admitted], slots: Sequence[Slot], end: float
) -> dict[str, dict[str, Any]]:
    """The figures of every set in both modes, in the time that is left until `end` (`time.monotonic()`)."""
    costs = {slot.key: _costs(field, slot) for slot in slots}
    chosen = pace(costs, end - time.monotonic(), bench.limit, bench.rounds)
    say(
        f"{chosen.sentences} of {bench.limit} sentences, {chosen.rounds} rounds ({chosen.slow_rounds} of the "
        f"slow contestants), about {chosen.seconds / 60:.1f} minutes"
    )
    weights = [sum(costs[slot.key].values()) for slot in slots]
    sets: dict[str, dict[str, Any]] = {}
    for at, slot in enumerate(slots):
        now = time.monotonic()
        deadline = now + (end - now) * weights[at] / sum(weights[at:])
        figures = sets.setdefault(slot.name, {"sentences": len(slot.texts[: chosen.sentences])})
        figures[slot.mode] = _measure(bench, field, slot, chosen, deadline)
    return sets


def run(bench: GecBench) -> dict[str, Any]:
    """Measure every set, single sentences and batches; return what the JSON line holds."""
    started = time.monotonic()
    slots = _slots(bench, _texts(bench))
    with ExitStack() as stack:
        field, failures = _admit_all(bench, slots, stack)
        sets = _race_all(bench, field, slots, started + bench.seconds)
    return {
        "bench": "gec",
        "hardware": hardware(),
        "model": bench.model.name,
        "settings": {
            k: getattr(bench, k) for k in ("limit", "rounds", "rows", "max_new_tokens", "threads", "minutes")
        },
        "minutes": (time.monotonic() - started) / 60,
        "sets": sets,
        "failures": [asdict(failure) for failure in failures],
    }


def main(
    model: Annotated[
        Path, typer.Option(help="Folder of an encoder-decoder correction model.")
    ] = GecBench.model,
    data: Annotated[
        Path, typer.Option(help="Folder that holds eval/jfleg_dev and eval/cweb_dev.")
    ] = GecBench.data,
    limit: Annotated[int, typer.Option(help="Sentences of each set, at most.")] = GecBench.limit,
    rounds: options.Rounds = GecBench.rounds,
    rows: Annotated[int, typer.Option(help="Rows at once in the batch mode.")] = GecBench.rows,
    max_new_tokens: options.MaxNewTokens = GecBench.max_new_tokens,
    threads: Annotated[str, typer.Option(help="Thread counts of torch to choose from.")] = "1,2",
    only: options.Only = "",
    minutes: options.Minutes = GecBench.minutes,
    out: options.Out = None,
) -> None:
    """Correction raced against transformers and CTranslate2.

    The same weights, in one run, taking turns.
    """
    from apps.bench.gec_table import show

    with told(ValueError, FileNotFoundError):
        counts = options.numbers("threads", threads)
        chosen = options.words(only)
        result = run(GecBench(model, data, limit, rounds, rows, max_new_tokens, counts, chosen, minutes))
        show(result)
        publish(result, out)
